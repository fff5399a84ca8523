package hosts

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/internal/mpirun"
	"launch/internal/spelling"
)

// line judges what the line asks, before any host is asked.
func (j *judge) line() {
	for _, why := range j.Run.Unclear {
		j.add(Asked, "", finding.Warnf("%s", why).
			Breaking("launch asks no host about which it does not know").
			Do("name the hosts by --host or --hostfile, or silence this: --skip %s", Asked))
	}
	if name := j.Run.Returns; name != "" {
		j.add("mpi.slots", "", finding.Failf("the hostfile %s has the line ends of Windows", name).
			Breaking("Open MPI stops with a parse error, and calls it an internal one").Do("sed -i 's/\\r$//' %s", name))
	}
	if j.allotted() || j.per() || j.sections() {
		return
	}
	slots, known := j.slots()
	if known && j.Run.Strict && j.Run.NP > slots {
		where := j.Run.Source
		if j.Run.Allocation != "" { // the fewer of both count
			where += " or " + j.Run.Allocation
		}
		j.slot(finding.Failf("%d processes, but the hosts have %s (%s)", j.Run.NP,
			finding.Count(slots, "slot"), j.Run.Source).
			Breaking("mpirun refuses to start").
			Do("-np %d, more slots in %s, or --map-by :OVERSUBSCRIBE", slots, where))
		return
	}
	j.binding()
}

// slot reports a line that mpirun refuses. It is a warning where it is not known whether this Open MPI counts the slots
// of the scheduler.
func (j *judge) slot(f finding.Finding) { j.slotOn("", f) }

// slotOn reports it of a host.
func (j *judge) slotOn(host string, f finding.Finding) {
	if j.Run.Doubt {
		f.Status = finding.Warn
		f = f.Breaking("mpirun refuses to start, if it takes the hosts from the scheduler")
	}
	j.add("mpi.slots", host, f)
}

// slots returns how many slots the hosts have; ok: it is known of each.
func (j *judge) slots() (n int, ok bool) {
	run := j.Run
	run.Hosts = slices.Clone(run.Hosts)
	for i, h := range run.Hosts {
		run.Hosts[i].Slots = j.slotsOf(h)
	}
	return run.Slots()
}

// slotsOf returns how many slots a host has; 0: not known. One without a number has at most as many as its shell has
// processors.
func (j *judge) slotsOf(h mpirun.Host) int { return cmp.Or(h.Slots, j.facts(h).Cores) }

// facts returns what a host has answered, if it has answered all.
func (j *judge) facts(h mpirun.Host) mpirun.Facts {
	for _, a := range j.Answers {
		if a.Name == h.Name && a.Whole {
			return a.Facts
		}
	}
	return mpirun.Facts{}
}

// loginRule is what an agent's last words mean.
type loginRule struct {
	id, has string // one of these texts, separated by |
	what    string
	fix     string // %[1]s: the host, %[2]s: the agent
}

// loginRules returns the rules; the first that fits counts.
func loginRules() []loginRule {
	return []loginRule{
		{"mpi.name", "could not resolve hostname|name or service not known|nodename nor servname|invalid node name",
			"its name is not known here", "correct the name, or add it to DNS or /etc/hosts: getent hosts %[1]s"},
		{"mpi.login", "identification has changed", "its key is another one than %[2]s knows",
			"was it installed anew? ssh-keygen -R %[1]s && ssh-keyscan %[1]s >> ~/.ssh/known_hosts"},
		{"mpi.login", "host key verification failed|host key is known for",
			"%[2]s asks whether to trust its key, which mpirun cannot answer",
			"ssh-keyscan %[1]s >> ~/.ssh/known_hosts   # where the network can be trusted"},
		{"mpi.login", "too many authentication failures", "%[2]s offers it more keys than it takes",
			"in ~/.ssh/config: Host %[1]s, with IdentityFile KEY and IdentitiesOnly yes"},
		{"mpi.login", "permission denied|no more authentication methods",
			"it does not let this user in without a password", "ssh-copy-id %[1]s   # a key, and an agent for its passphrase"},
		{"mpi.login", "sftp connections only", "its sshd lets this user transfer files, and run no command",
			"on it: remove ForceCommand internal-sftp from sshd_config for this user"},
		{"mpi.login", "account is currently not available|account has expired|password has expired|account is locked",
			"this user's account there is closed", "ask an administrator of %[1]s"},
		{"mpi.login", "going down|booting up|pam_nologin|etc/nologin", "it shuts down or starts up, and lets root in alone",
			"wait until it is up; where it is: is /etc/nologin left over on %[1]s?"},
		{"mpi.reach", "connection refused", "no sshd answers there: the connection is refused",
			"on it: systemctl start sshd; another port: Port in ~/.ssh/config"},
		{"mpi.reach", "timed out|timeout", "it does not answer: packets to it are lost, or it is down",
			"ping %[1]s; then its power, the cable, or a firewall that drops"},
		{"mpi.reach", "no route to host|network is unreachable|host is down", "there is no way to it",
			"ip route get %[1]s; then its power, the cable, or the route"},
		{"mpi.shell", "open terminal failed|must be connected to a terminal",
			"a start-up file there starts a program that needs a terminal, such as tmux or screen",
			"in that file on %[1]s, above that line: " + interactive},
		{"mpi.reach", "connection closed|connection reset|kex_exchange|banner exchange",
			"its sshd ends the connection", "on it: journalctl -u sshd; MaxStartups in sshd_config?"},
	}
}

// MayCome reports whether a host could not be asked for a reason that ends by itself where hosts start together, as the
// pods of an MPIJob do: its name is not known, or nothing answers there. why says which.
func (a Answer) MayCome() (why string, ok bool) {
	if a.Whole || a.Facts.Host != "" || a.LossWay != "" {
		return "", false
	}
	if r, ok := ruleOf(a); ok && (r.id == "mpi.name" || r.id == "mpi.reach") {
		return r.what, true
	}
	return "", false
}

// ruleOf returns what the words of a host mean that could not be asked.
func ruleOf(a Answer) (loginRule, bool) {
	text := strings.ToLower(a.Failed + "\n" + strings.Join(a.Before, "\n"))
	for _, r := range loginRules() {
		for has := range strings.SplitSeq(r.has, "|") {
			if strings.Contains(text, has) {
				return r, true
			}
		}
	}
	return loginRule{}, false
}

// reached judges whether a host could be asked, and reports it.
func (j *judge) reached(a Answer) bool {
	if a.Whole {
		return true
	}
	agent := cmp.Or(j.Agent, "ssh")
	if a.LossWay != "" {
		j.add("mpi.mtu", a.Name, LongPackets(a.Name, a.LossWay, a.LossSeen))
		return false
	}
	if a.Busy != "" {
		j.add("mpi.shell", a.Name, finding.Warnf("it answered late, and so did this busy host: %s",
			a.Busy).
			Breaking("mpirun waits for it, unless it is only late").
			Do("%s %s true   # how long does it take?\ntop   # on this host: what uses its processors?", agent, a.Target()))
		return false
	}
	if a.Facts.Host != "" {
		j.add("mpi.shell", a.Name, finding.Warnf("its shell has not answered all in time, so launch knows it in part only").
			Breaking("nothing, if it is only slow").Do("%s %s true   # how long does it take?", agent, a.Target()))
		return false
	}
	if a.Unrun != nil {
		j.unrun(a, agent)
		return false
	}
	if r, ok := ruleOf(a); ok {
		f := finding.Failf("%s", fill(r.what, a.Name, agent)).Do("%s", fill(r.fix, a.Name, agent))
		if close := spelling.Closest(a.Name, j.known(a.Name)); r.id == "mpi.name" && close != "" {
			f.Fix = fmt.Sprintf("did you mean %s?", close)
		}
		f = f.See(agent+" "+a.Target(), "%s", r.line(strings.Join(a.Before, "\n")+"\n"+a.Failed))
		if j.NoAgent != "" && strings.Contains(r.has, "permission denied") {
			f = f.See("here", "no agent answers at SSH_AUTH_SOCK=%s", j.NoAgent).
				Do("eval \"$(ssh-agent)\"; ssh-add   # where the key has a passphrase\n%s", f.Fix)
		}
		j.add(r.id, a.Name, f)
		return false
	}
	f := finding.Failf("a shell there did not answer: does a start-up file end it, or does sshd run another command?").
		Breaking("mpirun starts its daemon by the same shell").
		Do("%s %s true   # it must end at once, without a word\non it: is there command= in ~/.ssh/authorized_keys, or "+
			"ForceCommand in sshd_config?", agent, a.Target())
	id := "mpi.login"
	if a.Late || len(a.Before) > 0 {
		id = "mpi.shell"
		f.Fix, _, _ = strings.Cut(f.Fix, "\n")
		f.What = "its shell was not ready in time: does a start-up file ask or wait?"
	}
	for _, line := range a.Before[:min(len(a.Before), 2)] {
		f = f.See(a.Name, "it printed %q", line)
	}
	if l := lastLine(a.Failed); l != "" {
		f = f.See(agent+" "+a.Target(), "%s", l)
	}
	j.add(id, a.Name, f)
	return false
}

// line returns the last line of a text that the rule fits, or the last one.
func (r loginRule) line(text string) string {
	for _, l := range slices.Backward(strings.Split(text, "\n")) {
		for has := range strings.SplitSeq(r.has, "|") {
			if strings.Contains(strings.ToLower(l), has) {
				return strings.TrimSpace(l)
			}
		}
	}
	return lastLine(text)
}

// LongPackets returns the finding about a host to which long packets get lost, or from which.
func LongPackets(host, way, seen string) finding.Finding {
	return finding.Failf("long packets %s get lost, and short ones arrive", way).Named("mpi.mtu").See(host, "%s", seen).
		Breaking("its daemon and mpirun wait for each other").
		Do("%s", FixMTU(host))
}

// FixMTU returns what to do where long packets to a host get lost.
func FixMTU(host string) string {
	return fmt.Sprintf("ping -M do -s 1472 %s   # 1500 bytes; then compare the MTU of both interfaces, and of a tunnel "+
		"or VLAN between\na firewall has to let ICMP \"fragmentation needed\" pass", host)
}

// fill puts the host and the agent into a text that may have them.
func fill(text, host, agent string) string {
	return strings.NewReplacer("%[1]s", host, "%[2]s", agent).Replace(text)
}

// known returns the names that a misspelt one may have meant: those of hosts that have answered, and of /etc/hosts.
func (j *judge) known(but string) (out []string) {
	for _, a := range j.Answers {
		if a.Name != but && a.Whole {
			out = append(out, a.Name)
		}
	}
	for _, n := range j.Known {
		if n != but {
			out = append(out, n)
		}
	}
	return out
}

// started judges what mpirun's daemon will meet on a host.
func (j *judge) started(a Answer) {
	if len(a.Before) > 0 {
		j.add("mpi.shell", a.Name, finding.Warnf("its start-up files print in a shell that is not interactive").
			See(a.Name, "%q", a.Before[0]).Breaking("the text is in the output of the job; some agents fail of it").
			Do("in ~/.bashrc there, first: %s", interactive))
	}
	j.room(a)
	f := a.Facts
	if a.Local || j.Run.Daemon == "" {
		return
	}
	switch {
	case f.Daemon == "" && f.Denied != "":
		j.add("mpi.daemon", a.Name, denied(f.Denied, f.Mount).Breaking("mpirun starts it on each host"))
	case f.Daemon == "" && strings.Contains(j.Run.Daemon, "/"):
		j.add("mpi.daemon", a.Name, finding.Failf("there is no %s", j.Run.Daemon).
			Breaking("mpirun starts it on each host").Do("install this MPI there, in the same place"))
	case f.Daemon == "":
		j.add("mpi.daemon", a.Name, finding.Failf("there is no %s in the PATH of a shell that is not interactive",
			j.Run.Daemon).See(a.Name, "PATH=%s", f.Path).Breaking("mpirun starts it on each host").
			Do("%s", j.daemonFix()))
	case j.of(f) != j.of(j.Head) && j.of(f) != "" && j.of(j.Head) != "":
		j.add("mpi.version", a.Name, finding.Failf("its %s is another version than this host's", path.Base(j.Run.Daemon)).
			See(a.Name, "%s: %s", f.Daemon, j.of(f)).See("here", "%s: %s", j.Head.Daemon, version(j.Head.Version)).
			Breaking("the daemons do not understand each other, or crash").
			Do("%s", j.versionFix()))
	}
	j.called(a)
}

// room judges whether MPI can make its temporary files on a host. MPICH makes none in /tmp; Open MPI gives up
// shared memory where it has no room.
func (j *judge) room(a Answer) {
	const shm = "/dev/shm"
	hydra := j.Run.Forward
	for _, full := range a.Facts.Full {
		f := finding.Failf("no file of 1 MiB can be made in %s", full.Dir).
			See(a.Name, "%s", cmp.Or(reason(full.Said), "no answer"))
		switch {
		case full.Dir == shm && !hydra:
			f.Status = finding.Warn
			f = f.Breaking("processes of that host do not share memory, or end when they use it")
		case full.Dir == shm:
			f = f.Breaking("the processes there end with a bus error")
		case hydra:
			continue
		default:
			f = f.Breaking("mpirun's daemon keeps its files there, and ends")
		}
		j.add("mpi.room", a.Name, f.Do("on it: df %[1]s; df -i %[1]s; grep ' %[1]s ' /proc/mounts", full.Dir))
	}
}

// daemonFix says how the other hosts find the daemon.
func (j *judge) daemonFix() string {
	if dir := path.Dir(path.Dir(j.Head.Daemon)); j.Head.Daemon != "" {
		return fmt.Sprintf("type mpirun with its path, or: mpirun --prefix %s; or set PATH in ~/.bashrc there, "+
			"above the line that returns", dir)
	}
	return "mpirun --prefix DIR, or set PATH in ~/.bashrc there, above the line that returns"
}

func (j *judge) versionFix() string {
	if j.Run.Forward {
		return "install the same version there, in the same place"
	}
	return "install the same version there, or name it for all hosts: mpirun --prefix DIR"
}

// version returns what of a daemon's words tells its version.
func version(words string) string {
	words, _, _ = strings.Cut(words, "Report bugs")
	if i := strings.Index(words, "Version:"); i >= 0 { // Hydra's build details
		if f := strings.Fields(words[i+len("Version:"):]); len(f) > 0 {
			return f[0]
		}
	}
	return strings.TrimSpace(words)
}

// of returns the version of a host's daemon; "": not known. The file of Hydra's has the version of this host's mpiexec,
// or it is another one: an mpiexec next to it may be of another package.
func (j *judge) of(f mpirun.Facts) string {
	head, there := strings.Fields(j.Head.Numbers), strings.Fields(f.Numbers)
	v := version(j.Head.Version)
	switch {
	case !slices.Contains(head, v) || len(there) == 0:
		return version(f.Version)
	case slices.Contains(there, v):
		return v
	}
	there = slices.DeleteFunc(there, func(n string) bool { return slices.Contains(head, n) })
	return cmp.Or(strings.Join(there, " "), version(f.Version)) // "": another build may hold no version as a text
}

// called judges whether a host reached this one. Open MPI's daemon tries all addresses.
func (j *judge) called(a Answer) {
	failed := finding.Failf("it cannot call this host back").
		Breaking("its daemon cannot tell mpirun that it runs, and mpirun waits").
		Do("correct its /etc/hosts where it does not know this host; else open the ports of this host to it: "+
			"mpirun listens on any port, or on those of %s", j.portsOption())
	for _, c := range a.Facts.Calls {
		switch {
		case j.Run.CallName != "" && c.To != j.Run.CallName: // Hydra's daemons call a name
			continue
		case strings.HasSuffix(c.Said, mpirun.Heard):
			return
		case c.Said == "none":
			return // no program there can call; launch itself will
		}
		if len(failed.Seen) < 3 {
			failed = failed.See(a.Name+" to "+c.To, "%s", cmp.Or(reason(c.Said), "no answer"))
		}
	}
	if len(failed.Seen) > 0 && a.Busy != "" {
		failed.Status = finding.Warn
		failed = failed.See("this host", "it may have answered late: %s", a.Busy)
	}
	if len(failed.Seen) > 0 {
		j.add("mpi.call", a.Name, failed)
	}
}

func (j *judge) portsOption() string {
	switch {
	case j.Run.Forward:
		return "MPIEXEC_PORT_RANGE=LO:HI"
	case j.MPI == "openmpi5":
		return "--prtemca oob_tcp_dynamic_ipv4_ports LO-HI"
	}
	return "--mca oob_tcp_dynamic_ipv4_ports LO-HI"
}

// reason returns what is left of a shell's complaint: its last part says why.
func reason(text string) string {
	for _, unknown := range []string{"name resolution", "not known", "No address associated"} {
		if strings.Contains(text, unknown) {
			return "it does not know this name"
		}
	}
	if i := strings.LastIndex(text, ": "); i >= 0 {
		return text[i+2:]
	}
	return text
}
