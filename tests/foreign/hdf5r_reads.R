library(hdf5r)
for (i in 0:3) {
  file <- H5File$new(sprintf("plt%04d.h5", i), mode = "r")
  cat(i, file[["x"]][, ], "\n")
  file$close_all()
}
