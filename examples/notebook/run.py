"""Runs the cells of a notebook and prints what they show, without Jupyter: python run.py card.ipynb."""

import ast
import json
import sys
from pathlib import Path

notebook = json.loads(Path(sys.argv[1]).read_text())
names = {"__name__": "__main__"}
for number, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
    tree = ast.parse("".join(cell["source"]), f"cell {number}")
    # As in Jupyter, a cell shows the value of the expression that it ends with.
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        if value is not None:
            print(value)
