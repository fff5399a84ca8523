package faultbench

import (
	"fmt"
	"path/filepath"
	"time"
)

// plainFaults can hit a job of torchrun alone, so they use no port and no flag of
// launch. want and runs are what launch must do about them.
func plainFaults() []fault {
	// known writes an /etc/hosts with all hosts, some at other addresses.
	known := func(tr *trial, h *host, otherwise map[string]string) {
		text := "127.0.0.1 localhost\n"
		for _, o := range tr.hosts {
			if at, other := otherwise[o.Name]; !other {
				text += o.Addr + " " + o.Name + "\n"
			} else {
				text += at + " " + o.Name + "\n"
			}
		}
		h.Etc("hosts", text)
	}
	// asking puts host0.lab into a name server; the sick host asks another one.
	asking := func(how string) func(*trial) {
		return func(tr *trial) {
			tr.byDNS("good")
			tr.each(func(h *host) { known(tr, h, nil) })
			tr.sick.assist(tr, "dns-"+how, "127.0.0.1:53")
			tr.sick.Etc("resolv.conf", "nameserver 127.0.0.1\n")
		}
	}
	closed := func(verdict string, sick int) func(*trial) {
		return func(tr *trial) {
			tr.sick = tr.hosts[sick]
			tr.sick.Run("table inet f {\nchain i {\ntype filter hook input priority 0\niif lo accept\nct state established "+
				"accept\nmeta l4proto tcp "+verdict+"\n}\n}\n", "nft", "-f", "-")
		}
	}
	env := func(name, value string) func(*trial) {
		return func(tr *trial) {
			tr.sick.Decoy("docker0", "172.17.0.1/16")
			tr.sick.env = append(tr.sick.env, name+"="+value)
		}
	}
	return []fault{
		{name: "nothing is wrong", runs: true, shared: true, inject: func(*trial) {}},
		{name: "one node never joins", shared: true, want: []string{"joined 2"},
			inject: func(tr *trial) { tr.sick.absent = true }},
		{name: "the host of the endpoint never joins", want: []string{"wait store-lost"}, inject: func(tr *trial) {
			tr.sick = tr.hosts[0]
			tr.sick.absent = true
		}},
		{name: "a node dies while the others wait for one that is late", want: []string{"wait left"},
			inject: func(tr *trial) {
				const dies = 20 * time.Second
				tr.sick.killAfter(tr, dies)
				tr.hosts[1].late = dies + 7*time.Second // c10d counts a node as dead after 15 s
				tr.observable = time.Now().Add(dies)
			}},
		{name: "the endpoint's firewall drops incoming packets", want: []string{"store.answers"}, inject: closed("drop", 0)},
		{name: "the endpoint's firewall rejects incoming packets", want: []string{"wait store-lost"},
			inject: closed("reject with tcp reset", 0)},
		{name: "the second node's firewall drops incoming packets", want: []string{"peer.reach"}, inject: closed("drop", 1)},
		{name: "the last node's firewall drops incoming packets", want: []string{"peer.reach"}, inject: closed("drop", 2)},
		{name: "packets from one node to another vanish", want: []string{"peer.reach"},
			inject: func(tr *trial) { tr.sick.Mute(tr.hosts[1].Host) }},
		{name: "a tunnel silently drops more than 1400 bytes", want: []string{"peer.large"},
			inject: func(tr *trial) { tr.sick.tunnel(1400) }},
		{name: "one hosts file has an old address of the endpoint", want: []string{"store.answers", "69 host0"},
			inject: func(tr *trial) {
				known(tr, tr.sick, map[string]string{"host0": "10.77.0.99"})
			}},
		{name: "one hosts file has the endpoint at 127.0.1.1", want: []string{"store.resolves", "69 host0"},
			inject: func(tr *trial) {
				known(tr, tr.sick, map[string]string{"host0": "127.0.1.1"})
			}},
		{name: "every hosts file has the own name at 127.0.1.1 (Debian)", runs: true, shared: true, inject: func(tr *trial) {
			tr.each(func(h *host) { known(tr, h, map[string]string{h.Name: "127.0.1.1"}) })
		}},
		{name: "no such name on one node", want: []string{"store.resolves"}, inject: asking("nxdomain")},
		{name: "one node's name server is silent", want: []string{"store.resolves", "dns.servers"}, inject: asking("silent")},
		{name: "one line has another number of processes", runs: true, want: []string{"same.nproc"}, inject: func(tr *trial) {
			tr.sick.flags = []string{"--nproc-per-node", "2"}
		}},
		{name: "one line has another argument of the script", want: []string{"same.command"}, inject: func(tr *trial) {
			tr.sick.line = []string{"--steps", "7"}
		}},
		{name: "the script is not on one node", want: []string{"command.script"}, inject: func(tr *trial) {
			tr.sick.Prepare = append(tr.sick.Prepare, "mount -t tmpfs none "+filepath.Dir(tr.reduce()))
		}},
		{name: "one clock is an hour ahead", runs: true, want: []string{"peer.clock"}, inject: func(tr *trial) {
			tr.sick.launch = ahead(tr.t, time.Hour)
			lib := filepath.Join(filepath.Dir(tr.sick.launch), "libskew.so") // for torchrun and the ranks
			tr.sick.env = append(tr.sick.env, "LD_PRELOAD="+lib)
		}},
		{name: "another program has ports 29400 and 29500 of the endpoint", runs: true, shared: true,
			inject: func(tr *trial) {
				tr.sick = tr.hosts[0]
				tr.sick.assist(tr, "listen", "0.0.0.0:29400")
				tr.sick.assist(tr, "listen", "0.0.0.0:29500")
			}},
		{name: "GLOO_SOCKET_IFNAME is docker0 on one node", runs: true, want: []string{"env.ifname.virtual"},
			inject: env("GLOO_SOCKET_IFNAME", "docker0")},
		{name: "GLOO_SOCKET_IFNAME of another machine", want: []string{"env.ifname.gloo"},
			inject: env("GLOO_SOCKET_IFNAME", "ens99")},
	}
}

// tunnel silently drops all packets over a size, in both directions.
func (h *host) tunnel(size int) {
	chain := func(hook, lo string) string {
		return fmt.Sprintf("chain %s {\ntype filter hook %s priority 0\n%s lo accept\nip length > %d drop\n}\n", hook[:1],
			hook, lo, size)
	}
	h.Run("table ip m {\n"+chain("input", "iif")+chain("output", "oif")+"}\n", "nft", "-f", "-")
}
