package logs

// peerCauses are ends of connections whose other end the line names.
var peerCauses = []cause{
	{
		id: "log.peer-silent", grade: open, words: []string{"Read error [", "Write error [", "Read timeout ["},
		form: re(`(?:Read|Write) (?:error|timeout) \[(?P<peer>[^\]\s]+)\](?::\S+)?: (?P<why>Connection timed out|` +
			`No route to host|Network is unreachable|Host is unreachable)`),
		says: "the connection of {who} to a rank at {peer} (Gloo) no longer gets an answer ({why}): that host went down or " +
			"hangs, or the network between them failed",
		need: []string{"is {peer} up, since when, and what do its dmesg and the output of its ranks end with",
			"the links and the firewall between both: ip -s link, ping, launch check",
			"conntrack or an idle timeout of a cloud's network, where the connection was idle for long"},
		from: "pytorch/gloo tcp/pair.cc, ETIMEDOUT",
	}, {
		id: "log.peer-lost", grade: cascade,
		words: []string{"Connection closed by peer [", "Connection reset by peer [", "Connection reset by peer"},
		form: re(`gloo/transport/\S+\] .*Connection (?:closed|reset) by peer \[(?P<peer>[^\]\s]+)\]|` +
			`gloo/transport/\S+\] .*error \[(?P<peer>[^\]\s]+)\](?::\S+)?: Connection reset by peer`),
		but:  "torch.peer",
		says: "{who} lost the connection to a rank at {peer}, which ended first, or whose host did",
		need: []string{"the output of the ranks at {peer}: which ended, and with which error"},
		from: "pytorch/gloo tcp/pair.cc",
	},
}
