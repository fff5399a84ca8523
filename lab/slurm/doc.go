// Package slurm starts jobs under a real Slurm: a slurmctld and several slurmd with munge, each in a
// network namespace with a host name of its own. It needs root and Debian's packages of Slurm and
// munge, which tools/test.sh unpacks; a test without them is skipped with the reason.
package slurm
