"""One barrier of Open MPI 4 or 5, without a compiler or a package."""
import ctypes
import os

mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
mpi.MPI_Init(None, None)
mpi.MPI_Barrier(world)
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", os.environ["OMPI_COMM_WORLD_SIZE"], "passed", flush=True)
mpi.MPI_Finalize()
