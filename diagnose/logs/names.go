package logs

// orteCut is what Open MPI before 5 does with a name that has dots: it leaves the domain out
// (plm_base_launch_support.c).
const orteCut = "ssh looks {host} up, which has no address, and the list of hosts has it with a domain: Open MPI " +
	"cuts the domain off"

// nameCauses are names of hosts that a launcher passes on.
var nameCauses = []cause{
	{
		id: "log.dns", grade: family, with: "horovodrun.ssh", words: []string{"Could not resolve hostname "},
		form: re(`ssh: Could not resolve hostname (?P<host>[\w.-]+): (?:[A-Z]|nodename)`),
		says: "horovodrun reaches its hosts by ssh, and the host where it runs finds no address for {host}",
		do: "getent hosts {host} must work there: correct the list of hosts, or wait for the name server. In a launcher " +
			"pod of the MPI operator that starts processes by kubexec (env | grep rsh_agent) use mpirun in place of horovodrun",
		need: []string{"getent hosts {host} and env | grep rsh_agent, where horovodrun runs"},
		from: "horovod runner/launch.py",
	},
	{
		id: "log.dns", grade: family, among: "hosts.short", words: []string{"Could not resolve hostname "},
		form: re(`ssh: Could not resolve hostname (?P<host>[\w-]+): (?:[A-Z]|nodename)`),
		says: orteCut,
		do: "mpirun --mca orte_keep_fqdn_hostnames 1 (OMPI_MCA_orte_keep_fqdn_hostnames=1; Open MPI 5: " +
			"PRTE_MCA_prte_keep_fqdn_hostnames=1), or write addresses or short names that resolve into the list of hosts; " +
			"a search domain in /etc/resolv.conf (dnsConfig.searches of the pod) helps, too",
		need: []string{"getent hosts {host}, and with its domain, on the launching host", "mpirun --version"},
		from: "open-mpi/ompi#12089, orte/mca/ras/base",
	}, {
		id: "log.dns", grade: decisive, words: []string{"unable to get host address for "},
		form: re(`(?:^\[(?:proxy|mpiexec)[^\]@]*@(?P<node>[\w.-]+)\] )?.*sock\w*.*unable to get host address for ` +
			`(?P<host>[\w.-]+)`),
		says: "{where} finds no address for the name {host}, by which a part of mpiexec on it is to call back",
		do: "getent hosts {host} on that host: give it in /etc/hosts of all hosts, or in DNS; or start mpiexec with a name " +
			"or address that the others know (-localhost ADDRESS)",
		from: "pmodels/mpich hydra sock.c",
	}, {
		id: "log.mpi-version-mismatch", grade: family, words: []string{"unknown option \"-", "Type 'orted --help'",
			"Type 'prted --help'", "unrecognized option '--hnp", "orted: Error: unknown option"},
		form: re(`(?P<tool>orted|prted)(?: --help'|: Error: unknown option "(?P<opt>-[\w-]+)")|` +
			`[Ee]rror: (?:unknown|unrecognized) option ["'](?P<opt>-?-(?:hnp[\w-]*|tree-spawn|parent-uri|daemonize))["']`),
		says: "the daemon of MPI on a host does not know an option[, {opt},] that mpirun gives it: that host has another " +
			"version of Open MPI",
		do: "install the same Open MPI on all hosts, and let ssh find it first: mpirun --prefix DIR, or PATH and " +
			"LD_LIBRARY_PATH of a shell without login (ssh HOST which orted)",
		need: []string{"mpirun --version here, and ssh HOST orted --version for each host"},
		from: "open-mpi/ompi opal/util/cmd_line.c",
	},
}

// nameFacts are lines of a list of hosts: the first part of a name with a domain.
var nameFacts = []cause{
	{id: "horovodrun.ssh", grade: fact, words: []string{"ssh not successful for host "}, form: re(`(?P<v>ssh not)`)},
	{id: "hosts.short", grade: fact, words: []string{".svc", ".local", ".internal", " slots=", "--host ", "-H "},
		form: re(`^\s*(?P<v>[a-z][\w-]*)\.[a-z][\w-]*(?:\.[\w-]+)*\.?(?:(?::|\s+slots ?= ?)\d+)?\s*$|` +
			`(?:--host|-H) (?P<v>[a-z][\w-]*)\.[a-z]`)},
}
