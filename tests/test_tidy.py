"""Laws of the code base that a tool can hold: layers, banned imports, module size."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "tidings"

# DESIGN: a layer imports only those above it in this list.
LAYERS = [
    "errors",
    "extras",
    "text_files",
    "model",
    "_kernel",
    "kernel",
    "matching",
    "overlay",
    "routing",
    "tracking",
    "delivery",
    "node",
    "protocols",
    "capacity",
    "segments",
    "store",
    "sim",
    "broker",
    "client",
    "sync",
    "localnet",
    "lab",
    "experiments",
    "figures",
    "pipeline",
    "console",
    "testing",
    "cli",
    "__init__",
]
PURE = {"errors", "model", "kernel", "matching", "overlay", "routing", "tracking", "delivery", "node", "protocols"}
PURE |= {"capacity"}
FOLDER_MODULES_MAX = 25
FUNCTION_LINES_MAX = 60
# Functions that are longer, with their lines. They may become shorter, and none may be added.
LONG_FUNCTIONS_ALLOWED: dict[str, int] = {}
# Public class names of several modules. They may only become fewer. The blocking client repeats names on purpose.
BLOCKING_CLIENT = "client/sync.py"
DUPLICATE_CLASSES_ALLOWED: set[str] = set()
# A docstring opens with a definition, not with a question.
QUESTION = re.compile(r"^(What|Who|Where|How|Which|When|Whose|Why|Whether|If|Does|Is|Are|May|Can)\b")
# Turns of phrase that readers of English manuals stop at.
SUBJECT = "asks?|has|have|may|publishes|waits?|wants?|is|reads?|sends?|connects?|subscribes?|needs?|comes?"
PHRASES = re.compile(
    rf"\b(who ({SUBJECT})|what there is|makes? no sense|faults? of ours|clock on the wall|anew|gives? back|given back|"
    r"will not do|is told|are told|so many|log-ins?|heart-beats?)\b",
    re.IGNORECASE,
)
HEART_BEAT = re.compile(r"[`\"']\w*heart-beat|heart-beat[:=`\"']")  # STOMP's header is called so
# Below the drivers nothing reads a clock, a random source, a socket, a file or an event loop.
BANNED_IN_PURE = {"asyncio", "io", "os", "pathlib", "random", "secrets", "socket", "sqlite3", "ssl", "subprocess"}
BANNED_IN_PURE |= {"tempfile", "threading", "time", "uvloop", "selectors", "shutil", "uuid", "datetime"}
ALLOWED_NAMES = {("random", "Random"), ("uuid", "UUID")}  # what is *passed in* may have its type named
GENERATED = ROOT / "src/tidings/client/sync.py"  # by docs/pages/blocking_client.py
MODULE_LINES_MAX = 500
KNOW_PLANE_EVENTS = {"kernel", "node"}  # drivers bring them to the engine without looking at them


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def modules() -> list[tuple[str, Path, ast.Module]]:
    return [
        (path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path, parsed(path))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]


def imports(tree: ast.Module) -> list[tuple[str, str]]:
    """(module, name) pairs; name is empty for a plain import."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}: write it in full"
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def test_a_layer_imports_only_those_above_it() -> None:
    wrong = []
    for layer, path, tree in modules():
        assert layer in LAYERS, f"{path.relative_to(ROOT)} belongs to no layer"
        for module, name in imports(tree):
            parts = f"{module}.{name}".split(".")
            if parts[0] in ("bench", "hardening", "tests"):
                wrong.append(f"{path.relative_to(ROOT)} imports {module}, which is not shipped")
            if parts[0] != "tidings":
                continue
            target = parts[1] if len(parts) > 1 and parts[1] in LAYERS else "__init__"
            if LAYERS.index(target) > LAYERS.index(layer):
                wrong.append(f"{path.relative_to(ROOT)} imports {target}")
            if layer == "broker" and target == "lab":
                wrong.append(f"{path.relative_to(ROOT)}: the broker does not import the lab")
            if {layer, target} == {"sim", "broker"}:
                wrong.append(f"{path.relative_to(ROOT)}: sim and broker never import each other")
    assert wrong == []


def test_pure_layers_touch_no_clock_chance_or_file() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for layer, path, tree in modules()
        if layer in PURE
        for module, name in imports(tree)
        if module.split(".")[0] in BANNED_IN_PURE and (module, name) not in ALLOWED_NAMES
    ]
    assert wrong == []


def test_only_the_kernel_package_knows_the_extension() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for layer, path, tree in modules()
        if layer != "kernel"
        for module, name in imports(tree)
        if "_kernel" in f"{module}.{name}".split(".")
    ]
    assert wrong == []


def test_only_the_engine_looks_at_events_of_the_plane() -> None:
    """Whoever does not import them cannot tell them apart: a driver has no dispatch of its own."""
    wrong = [
        str(path.relative_to(ROOT))
        for layer, path, tree in modules()
        if layer not in KNOW_PLANE_EVENTS
        for module, name in imports(tree)
        if f"{module}.{name}".startswith("tidings.kernel.events")
    ]
    assert wrong == []


def test_the_broker_keeps_out_of_the_engine() -> None:
    """It asks `engine.step` and looks at `engine.view`."""
    wrong = [
        f"{path.relative_to(ROOT)}, line {found.lineno}"
        for layer, path, tree in modules()
        if layer == "broker"
        for found in ast.walk(tree)
        if isinstance(found, ast.Attribute) and ast.unparse(found).endswith(("engine.node", "_engine.node"))
    ]
    assert wrong == []


def import_graph() -> dict[str, set[str]]:
    """Which module imports which, within the package."""
    trees = {}
    for _, path, tree in modules():
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        trees[".".join(parts).removesuffix(".__init__")] = tree
    known = {*trees, "tidings._kernel"}
    return {
        module: {full if (full := f"{source}.{name}") in known else source for source, name in imports(tree)} & known
        for module, tree in trees.items()
    }


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components of more than one module (Tarjan)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        path.append(module)
        for imported in graph.get(module, ()):
            if imported not in order:
                visit(imported)
            if imported in path:
                lowest[module] = min(lowest[module], lowest[imported])
        if lowest[module] == order[module]:
            component = path[path.index(module) :]
            del path[path.index(module) :]
            if len(component) > 1:
                found.append(set(component))

    for module in graph:
        if module not in order:
            visit(module)
    return found


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "f"}}
    assert sorted(map(sorted, cycles(graph))) == [["a", "b", "c"], ["d", "e"]]


def test_modules_do_not_import_each_other_in_circles() -> None:
    """Type-checking imports counted."""
    assert [sorted(one) for one in cycles(import_graph())] == [], "break these circles"


def test_commands_print_json_that_others_can_read() -> None:
    """NaN and Infinity, which Python writes, are none."""
    wrong = [
        f"{path.relative_to(ROOT)}, line {call.lineno}"
        for layer, path, tree in modules()
        if layer == "cli" and path.name != "json_text.py"
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith((".dumps", ".dump"))
        if not any(one.arg == "allow_nan" for one in call.keywords)
    ]
    assert wrong == []


def test_modules_stay_readable() -> None:
    too_long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("src", "hardening", "tests", "bench", "native")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".hpp", ".cpp"} and path != GENERATED
        for lines in [path.read_text().count("\n")]
        if lines > MODULE_LINES_MAX
    }
    assert too_long == {}


def test_folders_stay_readable() -> None:
    counts = Counter(path.parent for path in (ROOT / "src").rglob("*.py") if path.name != "__init__.py")
    assert {str(one.relative_to(ROOT)): n for one, n in counts.items() if n > FOLDER_MODULES_MAX} == {}


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{node.name}": lines
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "hardening").rglob("*.py")]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }
    grown = {name: lines for name, lines in long.items() if lines > LONG_FUNCTIONS_ALLOWED.get(name, 0)}
    assert grown == {}, f"split these: a function has at most {FUNCTION_LINES_MAX} lines"
    assert LONG_FUNCTIONS_ALLOWED.keys() - long.keys() == set(), "short now: take them off LONG_FUNCTIONS_ALLOWED"


def test_class_names_are_unique() -> None:
    places: defaultdict[str, set[str]] = defaultdict(set)
    for _, path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(str(path.relative_to(PACKAGE)))
    duplicates = {name: sorted(paths) for name, paths in places.items() if len(paths - {BLOCKING_CLIENT}) > 1}
    new = {name: paths for name, paths in duplicates.items() if name not in DUPLICATE_CLASSES_ALLOWED}
    assert new == {}, "a public class name belongs to one module"
    stale = DUPLICATE_CLASSES_ALLOWED - duplicates.keys()
    assert stale == set(), "unique now: take them off DUPLICATE_CLASSES_ALLOWED"


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def test_docstrings_open_with_a_definition() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in [*PACKAGE.rglob("*.py"), *(ROOT / "hardening").rglob("*.py")]
        for line, text in docstrings(path)
        if QUESTION.match(text)
    ]
    assert wrong == []


def test_texts_are_plain_english() -> None:
    written = [*PACKAGE.rglob("*.py"), *(ROOT / "hardening").rglob("*.py"), *(ROOT / "native").rglob("*.[ch]pp")]
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "generated" not in path.parts]
    pages += [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in [*written, *pages]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in PHRASES.finditer(line)
        if not HEART_BEAT.search(line)
    ]
    assert wrong == []
