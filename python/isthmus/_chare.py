"""Chares: objects that live in one process of the job, and whose entries are invoked by messages."""

from __future__ import annotations

import hashlib
import inspect
import math
import pickle
from typing import Any, Callable, Iterable, TypeVar

from . import _core, _reduce
from ._future import Future, RemoteFuture

_Function = TypeVar("_Function", bound=Callable[..., Any])

# As in isthmus/chare_runtime.h.
TYPE, CONSTRUCTOR, ENTRY, FUNCTION, REDUCER, BALANCER = range(1, 7)
GROUP, DENSE, SPARSE = range(1, 4)
TO_ELEMENT, TO_ALL, TO_FUNCTION = range(1, 4)

_PRIVATE = ("_element", "_channels", "_early", "_key")


def entry(function: _Function) -> _Function:
    """Makes a method of a chare one that others invoke, by a proxy. It may be `async def`.

    What it returns, or raises, goes to who has invoked it with `ret=True`. Else an exception ends the job,
    with its traceback.
    """
    function._isthmus_entry = True  # type: ignore[attr-defined]
    return function


def post(entry: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Makes a method the post entry of an entry of the same class: it says where arrays of GPUs go.

        @isthmus.entry
        def face(self, data, step): ...

        @isthmus.post(face)
        def post_face(self, data, step):
            data.into(self.ghost)

    It is called before the data comes, with the arguments of the entry, and an `isthmus.Coming` in the place of each
    array. The entry gets the arrays that it has named. It is a plain method, and returns nothing.
    """
    name = getattr(entry, "__name__", "")
    if not getattr(entry, "_isthmus_entry", False):
        raise TypeError(f"a post entry names an entry: {name or entry} is none")

    def decorate(function: _Function) -> _Function:
        if inspect.iscoroutinefunction(function):
            raise TypeError("a post entry cannot be a coroutine: the data waits for it")
        function._isthmus_post = name  # type: ignore[attr-defined]
        return function

    return decorate


class Spec:
    """An entry of a class: its place among the items of the running job."""

    __slots__ = ("name", "place")

    def __init__(self, name: str) -> None:
        self.name = name
        self.place = -1


class ClassSpec:
    """What is registered of a class."""

    def __init__(self, cls: type[Chare], name: str) -> None:
        self.cls = cls
        self.name = name
        self.place = self.constructor = self.keyed_constructor = self.greedy = self.refine = -1
        self.entries = {each: Spec(each) for each in dir(cls) if getattr(getattr(cls, each), "_isthmus_entry", False)}
        posts = (getattr(cls, each) for each in dir(cls))
        self.posts = {each._isthmus_post: each for each in posts if hasattr(each, "_isthmus_post")}
        methods = {each: _method(spec) for each, spec in self.entries.items()}
        self.element = type(f"{cls.__name__}Proxy", (ElementProxy,), {**methods, "_class": self})
        to_all = {each: _broadcast(spec) for each, spec in self.entries.items()}
        self.collection = type(f"{cls.__name__}Collection", (Collection,), {**to_all, "_class": self})


classes: dict[str, ClassSpec] = {}


def _method(spec: Spec) -> Callable[..., Any]:
    invoke = _core.invoke

    def method(self: ElementProxy, /, *arguments: Any, **keywords: Any) -> Any:
        if not keywords:
            return invoke(self, spec.place, arguments, keywords)
        returns, sent = keywords.pop("ret", False), keywords.pop("sent", None)
        if sent is not None and not isinstance(sent, (Future, RemoteFuture)):
            raise TypeError("what is told that the arrays have been sent is a Future")
        future = Future() if returns else None
        number = 0 if future is None else future._number
        try:
            _core.invoke_for(self, spec.place, arguments, keywords, number, False, sent)
        except BaseException:
            if future is not None:
                future._forget()
            raise
        return future

    method.__name__ = spec.name
    method._spec = spec  # type: ignore[attr-defined]
    return method


def _broadcast(spec: Spec) -> Callable[..., Any]:
    def method(self: Collection, /, *arguments: Any, **keywords: Any) -> Any:
        if keywords and keywords.pop("ret", False):
            if self._kind == SPARSE:
                raise TypeError("a map does not know how many chares it has: contribute to a reduction instead")
            future = Future(parts=math.prod(self._extents), gather=True)
            _core.invoke_for(self, spec.place, arguments, keywords, future._number, True)
            return future
        return _core.invoke(self, spec.place, arguments, keywords)

    method.__name__ = spec.name
    method._spec = spec  # type: ignore[attr-defined]
    return method


def target_of(target: Any) -> Any:
    """What a reduction or quiescence gives its value to: a future, or an entry of a proxy."""
    if isinstance(target, (Future, RemoteFuture)):
        return target._target()
    spec = getattr(target, "_spec", None)
    if isinstance(spec, Spec) and isinstance(getattr(target, "__self__", None), _core.Proxy):
        return target.__self__, spec.place
    raise TypeError("a target is a future, or an entry of a proxy: cells[0].add")


class ElementProxy(_core.Proxy):
    """Names one chare, wherever it is; may be sent. Its methods are the entries of the class.

    They return None at once; with `ret=True` a Future of what the entry returns or raises. Arguments are
    pickled, but for
    chares of the same process, which get the objects themselves: what has been sent is not to be changed.

    Arrays of GPUs (CuPy, PyTorch, all with `__cuda_array_interface__` or DLPack) go apart from the other arguments,
    straight from their memory. They must stay as they are until the entry has been called, or until `sent=future` gets
    None. ValueError is raised for one that is not contiguous, or whose memory has been freed. The entry gets a new
    array of CuPy or PyTorch, or a GpuArray; or what a post entry (`isthmus.post`) says.
    """

    _class: ClassSpec

    def with_priority(self, priority: int) -> ElementProxy:
        """The same chare; what is invoked by this proxy goes before what waits with a larger number. 0 is
        the usual one."""
        return type(self)(self.collection, self.low, self.high, TO_ELEMENT, 0, priority)

    @property
    def local(self) -> Any:
        """The chare itself where it is in this process, else None."""
        return _core.instance_of(self.collection, self.low, self.high)

    def __reduce__(self) -> Any:
        return _element_proxy, (self._class.name, self.collection, self.low, self.high, self.priority)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ElementProxy) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int, int]:
        return self.collection, self.low, self.high

    def __repr__(self) -> str:
        return f"<{self._class.name} {self.low} of collection {self.collection:#x}>"


def _element_proxy(name: str, collection: int, low: int, high: int, priority: int) -> ElementProxy:
    return class_of(name).element(collection, low, high, TO_ELEMENT, 0, priority)  # type: ignore[no-any-return]


def _collection_proxy(name: str, kind: int, collection: int, extents: tuple[int, ...]) -> Collection:
    return class_of(name).collection(kind, collection, extents)  # type: ignore[no-any-return]


def class_of(name: str) -> ClassSpec:
    try:
        return classes[name]
    except KeyError:
        raise LookupError(f"this process has no chare class {name}") from None


class Collection(_core.Proxy):
    """All chares of a group, array or map; may be sent. Its methods are broadcasts of the entries, all in one order.

    With `ret=True` a broadcast returns a Future of the list of results, in the order of the indices (not of a map).
    """

    _class: ClassSpec

    def __init__(self, kind: int, collection: int, extents: tuple[int, ...]) -> None:
        super().__init__(collection, 0, 0, TO_ALL)
        self._kind = kind
        self._extents = extents

    @property
    def extents(self) -> tuple[int, ...]:
        """Of a group the number of processes; of a map nothing."""
        return self._extents

    def __len__(self) -> int:
        if self._kind == SPARSE:
            raise TypeError("a map does not know how many chares it has")
        return math.prod(self._extents)

    def __getitem__(self, index: Any) -> Any:
        if self._kind == SPARSE:
            return self._class.element(self.collection, *_index_of_key(index))
        place = 0
        coordinates = index if isinstance(index, tuple) else (index,)
        if len(coordinates) != len(self._extents):
            raise IndexError(f"{len(coordinates)} coordinates in {len(self._extents)} dimensions")
        for coordinate, extent in zip(coordinates, self._extents):
            if not 0 <= coordinate < extent:
                raise IndexError(f"coordinate {coordinate} is not below {extent}")
            place = place * extent + coordinate
        return self._class.element(self.collection, place)

    def __iter__(self) -> Iterable[Any]:  # type: ignore[override]
        return (self._class.element(self.collection, place) for place in range(len(self)))

    def insert(self, key: Any, *arguments: Any, rank: int = -1, **keywords: Any) -> None:
        """A new chare of a map, in process `rank` or where the key says. One key twice ends the job."""
        if self._kind != SPARSE:
            raise TypeError("all chares of an array are there from the beginning")
        if not -1 <= rank < _core.size():
            raise IndexError(f"there is no process {rank}")
        low, high = _index_of_key(key)
        _core.insert(self.collection, low, high, rank, self._class.keyed_constructor, (key, *arguments), keywords)

    def done_inserting(self) -> None:
        """Nobody inserts any more: reductions of a map wait for this, which is called once."""
        if self._kind != SPARSE:
            raise TypeError("all chares of an array are there from the beginning")
        _core.done_inserting(self.collection)

    def balance(self, balancer: str = "refine") -> Future:
        """Moves chares from processes with much to do to others; a Future of None, when all that move have arrived.

        `balancer`: "refine" (few move) or "greedy". A load is the time in a chare's plain entries since
        the last balancing, or what
        `set_load` has said. Chares with open channels or with a coroutine that is suspended stay. Not of a group.
        """
        if self._kind == GROUP:
            raise TypeError("chares of a group do not move")
        future = Future()
        _core.balance(self.collection, _balancer(self._class, balancer), future._target())
        return future

    def __reduce__(self) -> Any:
        return _collection_proxy, (self._class.name, self._kind, self.collection, self._extents)


def _balancer(spec: ClassSpec, name: str) -> int:
    if name not in ("refine", "greedy"):
        raise ValueError(f"no balancer is called {name}: there are refine and greedy")
    return spec.refine if name == "refine" else spec.greedy


def _index_of_key(key: Any) -> tuple[int, int]:
    """128 bits of a hash: two keys that are equal by chance are less likely than a wrong bit of memory."""
    if isinstance(key, (str, int, bytes)):
        text = repr(key).encode()
    else:
        text = pickle.dumps(key, 4)
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def _create(cls: type[Chare], kind: int, extents: tuple[int, ...], arguments: Any, keywords: Any) -> Any:
    spec = classes.get(_name_of(cls))
    if spec is None or spec.cls is not cls or spec.place < 0:
        raise TypeError(f"{cls.__name__} is no class of chares that was there when isthmus.run began")
    maker = -1 if kind == SPARSE else spec.constructor
    return spec.collection(kind, _core.create(kind, list(extents), spec.place, maker, arguments, keywords), extents)


def Group(cls: type[Chare], /, *arguments: Any, **keywords: Any) -> Any:  # noqa: N802
    """A chare in each process, made by `cls(*arguments, **keywords)`, whose index is the rank. Returns the
    collection's proxy."""
    return _create(cls, GROUP, (_core.size(),), arguments, keywords)


def Array(cls: type[Chare], extents: int | tuple[int, ...], /, *arguments: Any, **keywords: Any) -> Any:  # noqa: N802
    """Chares in 1 to 3 dimensions, in blocks of consecutive ones. Returns the collection's proxy."""
    shape = extents if isinstance(extents, tuple) else (extents,)
    if not 1 <= len(shape) <= 3 or any(each < 1 for each in shape):
        raise ValueError("arrays have 1 to 3 dimensions of 1 or more")
    return _create(cls, DENSE, shape, arguments, keywords)


def Map(cls: type[Chare], /) -> Any:  # noqa: N802
    """Chares by keys, made one by one (`insert`). An invocation of one that is not there yet waits for it."""
    return _create(cls, SPARSE, (), (), {})


def _name_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class Chare:
    """What all chares derive from. Only `Group`, `Array` and `Map` make them.

    A process calls one entry at a time, in the thread of `isthmus.run`; coroutines of entries go on between entries.
    """

    _element: _core.Element

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        name = _name_of(cls)
        classes[name] = ClassSpec(cls, name)

    @property
    def index(self) -> Any:
        """In a group the rank, in an array the place (a tuple in 2 and 3 dimensions), in a map the key."""
        if "_key" in self.__dict__:
            return self._key
        extents = self._element.extents
        if len(extents) < 2:
            return self._element.low
        rest = self._element.low
        found: list[int] = []
        for extent in reversed(extents):
            rest, coordinate = divmod(rest, extent)
            found.append(coordinate)
        return tuple(reversed(found))

    @property
    def proxy(self) -> Any:
        """Names this chare; may be sent."""
        element = self._element
        return classes[_name_of(type(self))].element(element.collection, element.low, element.high)

    @property
    def collection(self) -> Any:
        """All chares of this one's group, array or map; may be sent."""
        extents = tuple(self._element.extents)
        kind = SPARSE if "_key" in self.__dict__ else GROUP if not extents else DENSE
        return classes[_name_of(type(self))].collection(kind, self._element.collection, extents)

    def contribute(self, target: Any, value: Any = None, reducer: Callable[[Any, Any], Any] = _reduce.nothing) -> None:
        """This chare's part in the next reduction of its collection.

        When all have given theirs, `target`, a future or an entry of a proxy, gets the result. All name
        the same target and
        reducer: one of `isthmus.reduce`, or a function that `isthmus.reducer` has decorated.
        """
        place = reducer_places.get(reducer)
        if place is None:
            raise TypeError("a reducer is one of isthmus.reduce, or one of @isthmus.reducer from before isthmus.run")
        self._element.contribute(place, value, target_of(target))

    def migrate(self, rank: int) -> None:
        """Moves this chare to process `rank` after the plain entry that it is in.

        It is pickled by its `__getstate__`, and made there without `__init__`. None of its coroutines may
        be suspended then.
        """
        if self.__dict__.get("_channels"):
            raise RuntimeError("a chare with open channels does not move")
        self._element.migrate(rank)

    def at_sync(self, then: Any, balancer: str = "refine") -> None:
        """This chare may be moved now. When all of its collection have said so, `balancer` places them,
        and the entry `then`, a
        method of this class without arguments, is invoked on each where it is then."""
        spec = classes[_name_of(type(self))]
        found = spec.entries.get(getattr(then, "__name__", ""))
        if found is None:
            raise TypeError("an entry of this class goes on: self.at_sync(self.go_on)")
        self._element.at_sync(found.place, _balancer(spec, balancer))

    def set_load(self, seconds: float) -> None:
        """This chare's load for balancing, instead of what is measured."""
        self._element.set_load(seconds)

    def destroy(self) -> None:
        """Ends this chare after the plain entry that it is in."""
        self._element.destroy()

    # What the library asks for.

    def _begin(self, key: Any, *arguments: Any, **keywords: Any) -> None:
        self._key = key
        self.__init__(*arguments, **keywords)  # type: ignore[misc]

    def _state(self) -> Any:
        state = self.__getstate__()
        if isinstance(state, dict):
            state = {name: value for name, value in state.items() if name not in _PRIVATE}
        return self.__dict__.get("_key"), "_key" in self.__dict__, state

    def _restore(self, saved: tuple[Any, bool, Any]) -> None:
        key, has_key, state = saved
        if has_key:
            self._key = key
        if hasattr(self, "__setstate__"):
            self.__setstate__(state)
        elif state:
            self.__dict__.update(state)

    def _ended(self) -> None:
        for channel in list(self.__dict__.get("_channels", {}).values()):
            channel._end.close()

    # Channels: each end tells the other where its messages go.

    def _open_channel(self, channel: Any, remote: ElementProxy, name: Any) -> None:
        if not isinstance(remote, ElementProxy):
            raise TypeError("the other end of a channel is the proxy of a chare")
        element = self._element
        key = (*remote._key(), name)
        if key == (element.collection, element.low, element.high, name):
            raise ValueError("a channel of a chare with itself")
        channels = self.__dict__.setdefault("_channels", {})
        if key in channels:
            raise ValueError("there is such a channel already: give it a name")
        channels[key] = channel
        element.hold(1)
        remote._isthmus_connect(element.collection, element.low, element.high, name, _core.rank(), channel._end.tag)
        early = self.__dict__.setdefault("_early", {}).pop(key, None)
        if early is not None:
            channel._end.connect(*early)

    def _close_channel(self, channel: Any) -> None:
        channels = self.__dict__["_channels"]
        for key in [key for key, each in channels.items() if each is channel]:
            del channels[key]
        self._element.hold(-1)

    @entry
    def _isthmus_connect(self, collection: int, low: int, high: int, name: Any, rank: int, tag: int) -> None:
        key = (collection, low, high, name)
        channel = self.__dict__.get("_channels", {}).get(key)
        if channel is not None and not channel._end.is_connected:
            channel._end.connect(rank, tag)
        else:
            self.__dict__.setdefault("_early", {})[key] = (rank, tag)


reducer_places: dict[Callable[[Any, Any], Any], int] = {}


def items(functions: list[tuple[str, Any]]) -> list[tuple[int, str, int, Any, Any]]:
    """What is registered: (kind, name, place of its class, object, post entry). Sets all places."""
    found: list[tuple[int, str, int, Any, Any]] = [(FUNCTION, "isthmus.reply", -1, None, None)]
    found += [(FUNCTION, name, -1, function, None) for name, function in functions]
    reducer_places.clear()
    for function, name in _reduce.all_reducers().items():
        reducer_places[function] = len(found)
        found.append((REDUCER, f"reducer {name}", -1, function, None))
    for spec in classes.values():
        place = spec.place = len(found)
        cls = spec.cls
        found.append((TYPE, spec.name, -1, cls, None))
        spec.constructor = len(found)
        found.append((CONSTRUCTOR, f"{spec.name}.__init__", place, cls.__init__, None))
        spec.keyed_constructor = len(found)
        found.append((CONSTRUCTOR, f"{spec.name}.__init__ by key", place, cls._begin, None))
        spec.greedy = len(found)
        found.append((BALANCER, f"{spec.name} greedy", place, None, None))
        spec.refine = len(found)
        found.append((BALANCER, f"{spec.name} refine", place, None, None))
        for name, each in spec.entries.items():
            each.place = len(found)
            found.append((ENTRY, f"{spec.name}.{name}", place, getattr(cls, name), spec.posts.get(name)))
    return found
