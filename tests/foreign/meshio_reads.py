import meshio

for step in range(3):
    with meshio.xdmf.TimeSeriesReader(f"x{step}.xdmf") as reader:
        points, cells = reader.read_points_cells()
        _, data, _ = reader.read_data(0)
        print(step, points.shape, {name: float(values.sum()) for name, values in data.items()})
