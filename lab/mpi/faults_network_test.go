package mpi

// drop makes a host drop packets that arrive, by a rule of nftables.
func (tr *trial) drop(host int, rule string) { tr.filter(host, rule+" drop") }

func (tr *trial) filter(host int, rule string) {
	tr.t.Helper()
	tr.Hosts[host].Sh("command -v nft >/dev/null || exit 77\nnft -f - <<'E'\n" +
		"table inet lab { chain in {\n type filter hook input priority 0;\n " + rule + "\n }\n }\nE")
}

// syn matches the first packet of a connection.
const syn = "tcp flags & (syn | ack) == syn"

func networkFaults() []fault {
	return []fault{
		{
			name: "packets dropped", short: "Open MPI 4.1",
			inject: func(tr *trial) { tr.drop(sick, "iif eth0") },
			says:   []string{"timed out", "no answer", "not answer", "unreachable", "cannot be reached", "within"},
		},
		{
			name:   "packets rejected",
			inject: func(tr *trial) { tr.filter(sick, "iif eth0 reject") },
			says:   []string{"refused", "reject"},
		},
		{
			name: "a misspelt host", short: "MPICH 5.0",
			inject: func(tr *trial) { tr.names("host0", "host1", "hots2") },
			names:  []string{"hots2"},
			says:   []string{"not known", "unknown", "resolve", "no address", "no such host"},
		},
		{
			name:   "the name has an address that no host has",
			inject: func(tr *trial) { tr.Hosts[0].Sh("sed -i s/10.77.0.3/10.77.0.99/ /etc/hosts") },
			says:   []string{"no route", "unreachable", "timed out", "no answer", "not answer", "within"},
		},
		{
			name: "the way back to the head blocked", short: "Open MPI 5.0",
			inject: func(tr *trial) { tr.drop(0, "ip saddr 10.77.0.3 "+syn) },
			says:   []string{"to the head", "back", "host0", "10.77.0.1"},
		},
		{
			name: "two compute hosts cannot reach each other",
			inject: func(tr *trial) {
				tr.drop(1, "ip saddr 10.77.0.3")
				tr.drop(sick, "ip saddr 10.77.0.2")
			},
			names: []string{"host1", "host2"},
			says:  []string{"host1"},
		},
		{
			name:   "one direction between two compute hosts blocked",
			inject: func(tr *trial) { tr.drop(sick, "ip saddr 10.77.0.2 "+syn) },
			names:  []string{"host1", "host2"},
			says:   []string{"host1"},
		},
		{
			name:   "only the port of ssh is open on one host",
			inject: func(tr *trial) { tr.drop(sick, "iif eth0 tcp dport != 22 "+syn) },
			says:   []string{"host2", "10.77.0.3"},
		},
		{
			name:   "long packets vanish",
			inject: func(tr *trial) { tr.drop(sick, "iif eth0 meta length > 1400") },
			says:   []string{"long", "mtu", "packet"},
		},
		{
			name: "docker0 with one address on all hosts",
			inject: func(tr *trial) {
				for _, h := range tr.Hosts {
					h.Decoy("docker0", "172.17.0.1/16")
					h.Sh(`ip link add vd0 type veth peer name vd1; ip link set vd1 up; ip link set vd0 master docker0 up
						until ip link show docker0 | grep -q LOWER_UP; do sleep 0.05; done`)
				}
			},
			runs: Each, quiet: true,
		},
		{
			name:   "the head's name unknown on one host",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("sed -i /host0/d /etc/hosts") },
			says:   []string{"host0"},
			only:   []string{"MPICH 5.0"},
		},
		{
			name:   "the head's name means 127.0.1.1 on one host",
			inject: func(tr *trial) { tr.Hosts[sick].Sh("sed -i 's/10.77.0.1 /127.0.1.1 /' /etc/hosts") },
			says:   []string{"host0", "127.0.1.1"},
			only:   []string{"MPICH 5.0"},
		},
	}
}
