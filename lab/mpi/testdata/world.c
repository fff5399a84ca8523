// One line a world: how many ranks it has, and how many of them an allreduce reached. The last rank
// waits before it until the file of the argument is there, if there is one. The declarations
// replace mpi.h, which the packages at hand lack.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef MPICH
typedef int handle;
#define WORLD 0x44000000
#define INT 0x4c000405
#define SUM 0x58000003
#else
typedef void *handle;
extern char ompi_mpi_comm_world, ompi_mpi_int, ompi_mpi_op_sum;
#define WORLD ((handle)&ompi_mpi_comm_world)
#define INT ((handle)&ompi_mpi_int)
#define SUM ((handle)&ompi_mpi_op_sum)
#endif

int MPI_Init(int *, char ***);
int MPI_Comm_rank(handle, int *);
int MPI_Comm_size(handle, int *);
int MPI_Allreduce(const void *, void *, int, handle, handle, handle);
int MPI_Finalize(void);

#define LONG 100000 /* a message of many packets of full length */

int main(int argc, char **argv)
{
	int rank, size;
	int *one = malloc(LONG * sizeof *one), *sum = calloc(LONG, sizeof *sum);

	for (int i = 0; i < LONG; i++)
		one[i] = 1;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(WORLD, &rank);
	MPI_Comm_size(WORLD, &size);
	while (argc > 1 && rank == size - 1 && access(argv[1], F_OK) != 0)
		usleep(100000);
	MPI_Allreduce(one, sum, 1, INT, SUM, WORLD);
	MPI_Allreduce(one, sum, LONG, INT, SUM, WORLD);
	if (rank == 0) {
		printf("a world of %d: sum %d\n", size, sum[LONG - 1]);
		fflush(stdout);
	}
	return MPI_Finalize();
}
