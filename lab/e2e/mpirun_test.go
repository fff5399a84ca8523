package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"launch/lab/netns"
)

// On the head node, launch has Open MPI's mpirun forward, with -x, what all
// processes of the job need, and nothing that belongs to the head node alone.
func TestMpirunForwardsTheMasterAddress(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("mpirun"); err != nil {
		t.Skip("needs Open MPI (package openmpi-bin)")
	}
	c := newCluster(t, netns.New(t, 1), 1, "")
	c.env = []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
	n := c.startBare(0, []string{tools.launch, "mpirun", "--host", "10.77.0.1:2", "-np", "2",
		"sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE, master at $MASTER_ADDR:$MASTER_PORT, " +
			"interface ${NCCL_SOCKET_IFNAME:-not set}"})
	n.exits(0)
	for _, rank := range []string{"0", "1"} {
		if want := "rank " + rank + " of 2, master at 10.77.0.1:29500, interface not set\n"; !strings.Contains(n.out.String(),
			want) {
			t.Errorf("stdout lacks %q", want)
		}
	}
}
