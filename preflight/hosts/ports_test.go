package hosts

import (
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// Calls between hosts that fail say how this MPI is given open ports. Where the line names its ports, launch has
// called other ones, and the job may run.
func TestPortsOfTheJob(t *testing.T) {
	report := finding.Report{finding.Failf("calls do not get through").Named("peer.reach").Do("open TCP"),
		finding.Failf("other").Named("peer.clock")}
	for mpi, says := range map[string]string{"openmpi4": "btl_tcp_port_min_v4", "openmpi5": "prte_dynamic",
		"intel": "I_MPI_PORT", "mpich": "MPIEXEC_PORT_RANGE"} {
		got := Ports(mpirun.Run{}, mpi, report)
		if got[0].Status != finding.Fail || !strings.Contains(got[0].Fix, says) || got[1].Fix != "" {
			t.Errorf("%s: %+v", mpi, got)
		}
	}
	got := Ports(mpirun.Run{JobPorts: "MPICH_PORT_RANGE=1:2"}, "mpich", report)
	if got[0].Status != finding.Warn || !strings.Contains(got[0].Seen[0].What, "MPICH_PORT_RANGE") ||
		got[1].Status != finding.Fail || report[0].Status != finding.Fail {
		t.Errorf("%+v", got)
	}
}
