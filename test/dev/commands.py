"""./dev answers a person who mistypes, and explains itself."""


def cases(suite):
    def answers(name, arguments, status, **expected):
        with suite.case(f"commands: {name}"):
            suite.expect(suite.run(["./dev", *arguments], timeout=60), status=status, **expected)

    answers("alone it prints the help", [], 0, out="usage: ./dev COMMAND")
    answers("an unknown command", ["biuld"], 2, err="no command 'biuld'")
    answers("an unknown preset", ["build", "--preset", "fast"], 1, err="no preset 'fast'")
    answers("an unknown set of packages", ["setup", "everything"], 1, err="'everything' is none of")
    answers("an unknown benchmark", ["bench", "nothing"], 2, err="no benchmark 'nothing'")
    for command in ("demo", "build", "test", "bench", "lint", "format", "gpu-bundle", "setup", "clean"):
        answers(f"{command} --help", [command, "--help"], 0, out=rf"usage: ./dev (\w+ )?.*")
