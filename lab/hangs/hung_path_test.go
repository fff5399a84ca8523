package hangs

// fourIn are four ranks that have called init_process_group.
const fourIn = "0,1,2,3:init"

// syn is a packet that opens a connection.
const syn = "tcp flags & (syn | ack) == syn"

// high are the ports at which ranks listen.
const high = "iifname eth0 tcp dport 32768-60999 " + syn

// meshKinds are jobs whose ranks cannot connect to each other, while all reach the store.
func meshKinds() []kind {
	dropped := kind{name: "mesh-dropped", at: fourIn, before: func(b *bed) { b.drops(0, high); b.drops(1, high) },
		want: want{state: "hung", cause: "mesh.dropped"}}
	oneWay := dropped.named("mesh-dropped-one-way")
	oneWay.before = func(b *bed) { b.drops(0, high) } // the higher address dials
	refused := kind{name: "mesh-refused", at: "0,1:init", over: []int{1},
		before: func(b *bed) { b.filter(0, "iifname eth0 tcp dport 32768-60999 reject with tcp reset") },
		want:   want{state: "hung", cause: "mesh.refused|mesh.incomplete|node.ended|peer.ended"}}
	kept := refused.named("mesh-refused-and-kept").with("--keep")
	kept.at, kept.over = "0,1:init 2,3:failed", nil
	kept.want.cause = "mesh.refused|mesh.incomplete|rank.failed|peer.ended"
	loopback := kind{name: "loopback", gloo: true, args: "--keep", before: func(b *bed) {
		for i, h := range b.lab.Hosts {
			h.Etc("hosts", "127.0.0.1 localhost\n127.0.1.1 "+hostName(i)+"\n")
		}
	}, over: some, want: want{state: "hung", cause: "address.loopback"}}
	lo := loopback.named("loopback-interface")
	lo.before, lo.env = nil, []string{"GLOO_SOCKET_IFNAME=lo"}
	decoy := kind{name: "unreachable-address", gloo: true, spare: 1, at: fourIn, before: func(b *bed) {
		b.lab.Hosts[1].Decoy("lxcbr0", "10.0.3.1/24")                               // lower, so host0 dials
		b.lab.Hosts[0].Run("", "ip", "route", "add", "default", "via", "10.77.0.3") // which forwards nothing
	}, envOf: func(host int) []string {
		if host == 1 {
			return []string{"GLOO_SOCKET_IFNAME=lxcbr0"}
		}
		return nil
	}, want: want{state: "hung", cause: "address.unreachable|mesh.dropped", ranks: "2,3|", nodes: "host1|"}}
	gone := []int{1}
	noInterface := kind{name: "no-such-interface", gloo: true, at: "0,1:init", over: gone, envOf: func(host int) []string {
		if host == 1 {
			return []string{"GLOO_SOCKET_IFNAME=docker0"}
		}
		return nil
	}, want: want{state: "hung", cause: "node.ended", nodes: "host1|node 1"}}
	return []kind{
		dropped.always(), dropped.named("mesh-dropped-env").by(env), dropped.named("mesh-dropped-c10d").by(c10d).late(),
		dropped.named("mesh-dropped-torch-1.13").aged(), oneWay, refused, kept, loopback, lo, decoy, noInterface,
	}
}

// late drops packets when c10d has passed, whose second store has a high port too.
func (k kind) late() kind {
	k.before = nil
	k.args, k.at, k.then = "--odd 2,3 --before wait_gate", "0,1:init 2,3:odd", fourIn
	k.strike = func(b *bed) {
		// Ranks 2 and 3 reach the store at its port, which they know.
		rule := "iifname eth0 tcp dport != " + b.masterPort(2) + " tcp dport 32768-60999 " + syn
		b.drops(0, rule)
		b.drops(1, rule)
		b.open("go")
	}
	return k
}

// afterwards is a job whose ranks have made one step together when something happens.
func afterwards(name string, strike func(*bed), w want) kind {
	return kind{name: name, args: "--gate after", at: "0,1,2,3:at_gate", strike: func(b *bed) {
		strike(b)
		b.open("after")
	}, want: w}
}

// pathKinds are jobs whose hosts lose the path to each other after init_process_group.
func pathKinds() []kind {
	lost := want{state: "hung", cause: "path.lost"}
	cut := func(host int) func(*bed) { return func(b *bed) { b.lab.Hosts[host].Cut() } }
	large := want{state: "hung", cause: "path.mtu"}
	narrow := func(b *bed) {
		for i, h := range b.lab.Hosts {
			h.Run("", "ip", "link", "set", "eth0", "gso_max_segs", "1")
			b.filter(i, "iifname eth0 meta length > 1000 drop")
		}
	}
	mtu := afterwards("mtu", narrow, large).with("--numel 100000")
	start := kind{name: "mtu-from-the-start", args: "--numel 100000", at: "0,1,2,3:joined", before: narrow, want: large}
	return []kind{
		afterwards("cable", cut(1), lost),
		afterwards("cable-of-the-store", cut(0), lost),
		afterwards("cable-launch", cut(1), want{state: "hung", cause: "path.lost|path.here"}).by(launch), // no link
		afterwards("firewall-later", func(b *bed) { b.drops(0, "iifname eth0") }, lost),
		afterwards("one-way-later", func(b *bed) { b.lab.Hosts[1].Mute(b.lab.Hosts[0]) },
			want{state: "hung", cause: "path.lost|path.here"}),
		afterwards("firewall-forgets", func(b *bed) {
			b.lab.Hosts[1].Run("", "sysctl", "-qw", "net.netfilter.nf_conntrack_tcp_loose=0")
			b.filter(1, "iifname eth0 tcp flags & (fin|syn|rst|ack) != syn ct state != established drop")
		}, want{state: "hung", cause: "path.here"}).by(launch),
		mtu, start, kind{name: "one-connection", args: "--numel 1000000", at: "0,1,2,3:joined", before: func(b *bed) {
			b.lab.Hosts[1].Run("", "sysctl", "-qw", "net.netfilter.nf_conntrack_acct=1")
			b.filter(1, "iifname eth0 ct bytes > 1000000 drop") // a box that inspects, and gives up
		}, want: want{state: "hung", cause: "path.stale"}}.by(launch),
	}
}
