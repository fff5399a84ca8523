package hosts

import (
	"slices"

	"launch/internal/finding"
	"launch/internal/mpirun"
)

// reach is the check by which the hosts call each other at ports that launch chooses.
const reach = "peer.reach"

// Ports adds to calls between hosts that do not get through how this MPI may be given ports that are open. Where the
// line names some, a firewall may let just those pass, so that such a call is no failure.
func Ports(run mpirun.Run, mpi string, report finding.Report) finding.Report {
	report = slices.Clone(report)
	for i, f := range report {
		switch {
		case f.ID != reach || f.Status != finding.Fail && f.Status != finding.Warn:
		case run.JobPorts != "":
			report[i] = f.See("launch", "it called other ports than those of %s", run.JobPorts).
				Breaking("nothing, if those ports are open in both directions; else ranks wait for each other")
			report[i].Status = finding.Warn
		default:
			report[i].Fix += "\nor open some ports, and name them: " + portsOf(mpi)
		}
	}
	return report
}

// portsOf returns how the ports of an MPI's processes are named, and those of its daemons.
func portsOf(mpi string) string {
	switch mpi {
	case "openmpi4":
		return "--mca btl_tcp_port_min_v4 LO --mca btl_tcp_port_range_v4 N --mca oob_tcp_dynamic_ipv4_ports LO-HI"
	case "openmpi5":
		return "--mca btl_tcp_port_min_v4 LO --mca btl_tcp_port_range_v4 N --prtemca prte_dynamic_ipv4_ports LO-HI"
	case "intel":
		return "I_MPI_PORT_RANGE=LO:HI"
	}
	return "MPIEXEC_PORT_RANGE=LO:HI, and MPIR_CVAR_CH3_PORT_RANGE=LO:HI (ch3) or UCX_TCP_PORT_RANGE=LO-HI (UCX)"
}
