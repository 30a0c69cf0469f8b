"""Writes `box.msh`, in Gmsh's format: a square of 6 x 6 quadrilaterals that is periodic in both directions."""

from pathlib import Path

N = 6
SIDES = ["periodic_0_l", "periodic_0_r", "periodic_1_l", "periodic_1_r"]


def node(column: int, row: int) -> int:
    return 1 + column + row * (N + 1)


along = range(N)
elements: list[tuple[int, ...]] = [(1, 2, node(0, k), node(0, k + 1)) for k in along]
elements += [(1, 3, node(N, k), node(N, k + 1)) for k in along]
elements += [(1, 4, node(k, 0), node(k + 1, 0)) for k in along]
elements += [(1, 5, node(k, N), node(k + 1, N)) for k in along]
elements += [(3, 1, node(i, j), node(i + 1, j), node(i + 1, j + 1), node(i, j + 1)) for j in along for i in along]
names = ['2 1 "fluid"', *(f'1 {tag} "{side}"' for tag, side in enumerate(SIDES, start=2))]
nodes = [f"{node(i, j)} {-5 + 10 * i / N} {-5 + 10 * j / N} 0" for j in range(N + 1) for i in range(N + 1)]
lines = [f"{k} {kind} 2 {tag} {tag} {' '.join(map(str, of))}" for k, (kind, tag, *of) in enumerate(elements, start=1)]
with Path("box.msh").open("w", encoding="ascii") as file:
    print("$MeshFormat\n2.2 0 8\n$EndMeshFormat", file=file)
    for section, rows in {"PhysicalNames": names, "Nodes": nodes, "Elements": lines}.items():
        print(f"${section}", len(rows), *rows, f"$End{section}", sep="\n", file=file)
