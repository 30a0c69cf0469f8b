library(rhdf5)
for (i in 0:3) {
  name <- sprintf("plt%04d.h5", i)
  cat(i, h5read(name, "x"), h5readAttributes(name, "/")$time, "\n")
}
