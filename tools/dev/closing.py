"""What a test opens with `with` and takes down at the end, also where it could be opened half only."""


class Closing:
    """A subclass has `_open` and `close`, which takes down whatever is there."""

    def __enter__(self):
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()
