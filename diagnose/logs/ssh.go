package logs

const (
	noKeySays = "ssh without a password does not work to {where}"
	noKeyDo   = "set up ssh keys to every host of the job, the launching one included: ssh -o BatchMode=yes HOST true"
)

// sshCauses are errors of ssh, by which launchers start processes on other hosts.
var sshCauses = []cause{
	{
		id: "log.ssh-failure", grade: decisive,
		words: []string{"Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED"},
		form:  opt(`^(?:\S*@)?(?P<node>[\w.-]+): Host key`),
		says:  "ssh does not know the key of a host, or knows another one[: {node}], and asks nothing without a terminal",
		do: "put the key into ~/.ssh/known_hosts of the launching host, for each host by the name that is used: " +
			"ssh-keyscan HOST >> ~/.ssh/known_hosts; an old one goes with ssh-keygen -R HOST",
	}, {
		id: "log.ssh-failure", grade: decisive, words: []string{"are too open"},
		form: re(`Permissions (?P<mode>\d+) for '(?P<file>[^']+)' are too open`),
		says: "ssh of {who} does not use the key {file}: others may read it (mode {mode})",
		do:   "chmod 600 {file}; for a Secret in Kubernetes defaultMode: 0600, or a copy made by an init container",
		from: "openssh authfile.c",
	}, {
		id: "log.ssh-failure", grade: decisive,
		words: []string{"no hostkeys available", "Missing privilege separation directory",
			"Privilege separation user sshd does not exist"},
		form: re(`(?P<why>no hostkeys available|(?:Missing p|P)rivilege separation [\w /]+)`),
		says: "sshd of {who} does not start: {why}",
		do:   "in its image run ssh-keygen -A and mkdir -p /run/sshd; keys that are mounted must be readable (mode 600)",
		from: "openssh sshd.c",
	}, {
		id: "log.ssh-failure", grade: decisive, server: true, words: []string{"bad ownership or modes for "},
		form: re(`(?:^(?P<node>[\w.-]+) sshd[\w-]*\[\d+\]: )?` +
			`Authentication refused: bad ownership or modes for (?:file|directory) (?P<file>/.*)`),
		says: "sshd of {where} refuses the keys of a user, since {file} belongs to another user, or others may write it",
		do: "on that host: chown the user's home folder, .ssh and authorized_keys to the user, and chmod go-w them; in " +
			"Kubernetes copy a mounted Secret to such a folder in an init container",
		from: "openssh auth.c, StrictModes",
	}, {
		id: "log.ssh-failure", grade: decisive,
		words: []string{"Permission denied (publickey", "Permission denied, please try again"},
		form:  opt(`^(?:\S*@)?(?P<node>[\w.-]+): Permission`),
		says:  noKeySays, do: noKeyDo,
	}, {
		id: "log.ssh-failure", grade: decisive, login: true,
		words: []string{"non-zero exit status 255", "ssh exited with exit code 255"},
		form:  re(`[Cc]ommand '\[?'?ssh (?:\S+ )*?(?P<node>[\w.-]+) hostname|ssh|^(?:\S*@)?(?P<node>[\w.-]+): ssh`),
		says:  noKeySays, do: noKeyDo,
	}, {
		id: "log.ssh-closed", grade: family, soft: true, client: true, words: []string{"ssh_exchange_identification: ",
			"kex_exchange_identification: "},
		form:  re(`_exchange_identification: (?:read: |write: )?(?P<why>\S.*)`),
		later: []string{"onnection closed by ", "onnection reset by "},
		more:  re(`onnection (?:closed|reset) by (?P<node>[A-Za-z\d][\w.:-]*) port (?P<port>\d+)`),
		says: "the ssh server of {where} ended the connection before any login ({why}): too many logins at once, an " +
			"address that it refuses, or a proxy or another service at its port; keys do not matter there",
		do: "look at the log of sshd on that host (journalctl -u ssh -u sshd). Too many at once: raise MaxStartups in " +
			"its sshd_config, or start fewer (--mca plm_rsh_num_concurrent 16). Refused: /etc/hosts.deny, fail2ban, " +
			"PerSourcePenalties. Then ssh -v HOST true, several times",
		need: []string{"the log of sshd on that host at that time", "ssh -v HOST true from the launching node: which " +
			"address and port, and what answers there", "how many hosts the launcher calls at once"},
		from: "openssh kex.c, sshd.c",
	}, {
		id: "log.ssh-closed", grade: family, soft: true, words: []string{"during banner exchange", "banner exchange: "},
		form: re(`banner exchange: Connection to (?P<node>[A-Za-z\d][\w.:-]*) port (?P<port>\d+): (?P<why>.+)|` +
			`(?P<why>Connection timed out) during banner exchange`),
		says: "what answers at the port of ssh of {where}[ ({port})] does not greet as an ssh server does ({why}): sshd is " +
			"overloaded or has just started, its answers are dropped on the way, or another service has that port",
		do: "ssh -v HOST true, several times, and nc HOST PORT: a line SSH-2.0-… must appear at once. Look at the log " +
			"and the load of that host; start fewer logins at once (--mca plm_rsh_num_concurrent 16), or correct the port",
		need: []string{"the log of sshd on that host at that time", "ssh -v HOST true from the launching node"},
		from: "openssh kex.c, packet.c",
	}, {
		id: "log.ssh-failure", grade: decisive, client: true, words: []string{"Unable to negotiate with "},
		form: re(`negotiate with (?P<node>[A-Za-z\d][\w.:-]*) port \d+: (?P<why>no matching [\w ]+ found)` +
			`(?:\. Their offer: (?P<offer>\S+))?`),
		says: "ssh and the server of {where} have no algorithm in common: {why}[; the server offers {offer}]",
		do: "update the older of both; until then permit what the server offers in ~/.ssh/config (HostKeyAlgorithms, " +
			"KexAlgorithms, Ciphers or MACs with +NAME), for each host of the job",
		from: "openssh packet.c",
	}, {
		id: "log.ssh-failure", grade: decisive, words: []string{"Bad owner or permissions on "},
		form: re(`Bad owner or permissions on (?P<file>\S+)`),
		says: "ssh of {who} does not use its settings: others may write {file}, or it belongs to another user",
		do: "chmod 600 {file}, and chown it to the user; for a volume of Kubernetes copy it in an init container, " +
			"with the right owner",
		from: "openssh readconf.c",
	}, {
		id: "log.ssh-failure", grade: decisive, words: []string{"Too many authentication failures"},
		form: opt(`disconnect from (?P<node>[A-Za-z\d][\w.:-]*) port`),
		says: "ssh offered {where} as many keys as its server permits, and none of them was right",
		do: "name the key for each host of the job in ~/.ssh/config (IdentityFile, IdentitiesOnly yes), or remove " +
			"keys from the agent (ssh-add -D)",
		from: "openssh auth.c",
	}, {
		id: "log.ssh-closed", grade: open, client: true, words: []string{"onnection closed by ", "onnection reset by "},
		form: re(`^Connection (?:closed|reset) by (?P<node>[A-Za-z\d][\w.:-]*) port (?P<port>\d+)\s*$`),
		says: "the ssh server of {where} (port {port}) ended the connection before the session",
		need: []string{"the log of sshd on that host at that time", "ssh -v HOST true from the launching node: how " +
			"far it gets"},
		from: "openssh packet.c",
	}, {
		id: "log.ssh-unreachable", grade: family, words: []string{"ssh: connect to host"},
		form: re(`connect to host (?P<node>[\w.:-]+) port (?P<port>\d+): (?P<why>.*)`),
		says: "ssh cannot connect to {where} port {port}: {why}",
		do:   "check that the host runs, that sshd listens on that port, and that no firewall is between",
		need: []string{"ssh -v HOST true from the launching node"},
	}, {
		id: "log.end-noise", grade: harmless, server: true, words: []string{"onnection closed by ", "onnection reset by ",
			"_exchange_identification: ", "banner exchange: Connection from "},
		form: re(`^(?:sshd(?:-session)?\[\d+\]: )?(?:error: |fatal: )?(?:(?:kex|ssh)_exchange_identification: |` +
			`banner exchange: |Connection (?:closed|reset) by )`),
		says: "a client of ssh ended its connection to this server",
		from: "openssh sshd.c",
	},
}
