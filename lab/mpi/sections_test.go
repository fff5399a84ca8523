package mpi

import (
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// saysWhere is a program that prints its rank, its host with its cores, and the interface for Gloo, and then joins
// the world. Rank 0 prints whether it has the address at which torch's ranks will look for it.
const saysWhere = `c=$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status) r=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
[ $r != 0 ] || ip addr | grep -qw "inet ${MASTER_ADDR-none}" || echo "rank 0 is not at ${MASTER_ADDR-none}"
echo "rank $r on $(hostname)/$c: ${GLOO_SOCKET_IFNAME-none}"; exec ` + Job + `/world`

var where = regexp.MustCompile(`(?m)^rank (\d+) on (\S+): (\S+)\r?$`)

// Where the hosts need different values, each gets its own, and each rank is where plain mpirun has it.
func TestEachHostHasItsOwnVariables(t *testing.T) {
	lists := []struct {
		name  string
		ranks int
		slots [3]int // of the hosts; 0: not said
		line  bool   // the hosts are on the line
		back  bool   // the last host is the first of the list
		short bool   // it always runs
	}{
		{name: "a rank each", ranks: 3, slots: [3]int{1, 1, 1}},
		{name: "several slots", ranks: 5, slots: [3]int{2, 1, 3}, short: true},
		{name: "not all hosts", ranks: 3, slots: [3]int{2, 2, 2}},
		{name: "two ranks", ranks: 2, slots: [3]int{1, 1, 0}},
		{name: "the head is the last", ranks: 4, slots: [3]int{2, 1, 1}, back: true},
		{name: "the head is the last on the line", ranks: 4, slots: [3]int{2, 1, 1}, back: true, line: true, short: true},
		{name: "cores as slots", ranks: 2 * runtime.NumCPU(), slots: [3]int{0, 0, 0}},
		{name: "on the line", ranks: 4, slots: [3]int{1, 2, 1}, line: true},
	}
	for _, mpi := range Each {
		t.Run(dashed(mpi), func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, mpi, 3)
			tr.Hosts[1].Sh("ip link set eth0 down; ip link set eth0 name lan0; ip link set lan0 up")
			tr.all("sed -i \"1i 127.0.1.1 $(hostname)\" /etc/hosts") // Gloo would take that address
			for _, l := range lists {
				if len(asked) == 0 && !l.short {
					continue
				}
				t.Run(dashed(l.name), func(t *testing.T) {
					if tr.MPI.mpich() && l.slots[0] == 0 {
						t.Skip("MPICH has one process on a host without a number, and then begins again")
					}
					tr.line = tr.slots(l.ranks, l.slots, l.line, l.back)
					plain, with := tr.run(plainSide, plainLimit), tr.run(launchSide, plainLimit)
					for _, o := range []outcome{plain, with} {
						if o.Exit != 0 || !o.whole(l.ranks) {
							t.Fatalf("exit %d, %d ranks:\n%s", o.Exit, l.ranks, o.Said)
						}
					}
					want := map[string]string{}
					for _, m := range where.FindAllStringSubmatch(plain.Said, -1) {
						want[m[1]] = m[2] + " " + map[bool]string{true: "lan0", false: "eth0"}[strings.HasPrefix(m[2], "host1/")]
					}
					got := map[string]string{}
					for _, m := range where.FindAllStringSubmatch(with.Said, -1) {
						got[m[1]] = m[2] + " " + m[3]
					}
					if !maps.Equal(got, want) || strings.Contains(with.Said, "rank 0 is not at") ||
						len(got) != l.ranks {
						t.Errorf("%v, want %v\n%s", got, want, with.Said)
					}
				})
			}
		})
	}
}

// slots returns a line of np ranks on three hosts with slots.
func (tr *trial) slots(np int, slots [3]int, onLine, back bool) []string {
	form, flag := "%s:%d", "--host"
	switch {
	case tr.MPI.mpich() && onLine:
		flag = "-hosts"
	case tr.MPI.intel() && !back: // else by -f, from which it takes no numbers
		flag = "-machinefile"
	case tr.MPI.mpich():
		flag = "-f"
	case !onLine:
		form, flag = "%s slots=%d", "--hostfile"
	}
	var all []string
	for i, n := range slots {
		one := fmt.Sprintf(form, tr.Hosts[i].Name, n)
		if n == 0 {
			one = tr.Hosts[i].Name
		}
		all = append(all, one)
	}
	if back {
		slices.Reverse(all)
	}
	value := strings.Join(all, ",")
	if !onLine {
		tr.list(strings.Join(all, "\n") + "\n")
		value = Job + "/hosts"
	}
	return slices.Concat([]string{tr.MPI.Run, "-np", itoa(np), flag, value, "sh", "-c", saysWhere})
}
