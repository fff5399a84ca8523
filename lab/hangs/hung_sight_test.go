package hangs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// setpriv is a command of util-linux, which takes rights away.
const setpriv = "setpriv"

// Ways to see less than root on the host does.
var (
	aUser     = []string{setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"}
	noPtrace  = []string{setpriv, "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"}
	container = []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	userSpace = []string{"unshare", "--user", "--map-root-user"} // /proc cannot be mounted in it: the lab covers a part
)

// otherUser is another user in the container of the job: of the processes of another network nobody else can tell
// that they are.
func otherUser(b *bed, host int) []string { return append(inside(b, host), aUser...) }

func as(prefix []string) func(*bed, int) []string {
	return func(*bed, int) []string { return prefix }
}

// inside enters the container of the job of a host.
func inside(b *bed, host int) []string {
	b.t.Helper()
	for _, r := range b.runs {
		if r.host != host {
			continue
		}
		pid := r.cmd.Process.Pid
		if slices.Equal(b.kind.jobIn, userSpace) {
			return []string{"nsenter", "--target", strconv.Itoa(pid), "--user", "--preserve-credentials"}
		}
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if first := strings.Fields(string(children)); len(first) > 0 {
			return []string{"nsenter", "--target", first[0], "--pid", "--mount"}
		}
		b.t.Fatalf("process %d has no child", pid)
	}
	b.t.Fatalf("no command runs on %s", hostName(host))
	return nil
}

// rights sets where the job and the doctor run, and what the doctor must say that it could not read.
func (k kind) rights(job []string, doctor func(*bed, int) []string, lost string) kind {
	k.jobIn, k.doctorIn, k.want.lost = job, doctor, lost
	return k
}

// sightKinds are hangs that the doctor sees without rights, in or from outside of a container, and processes that
// cannot be read.
func sightKinds() []kind {
	const away = "rank.before-init|rank.absent"
	const foreign, capless = "it is a process of user 0", "root has no CAP_SYS_PTRACE here"
	sleep := hangs("", "sleep", away).second()
	lock := hangs("", "lock", "rank.lock").state("hung").second()
	sleep.hosts, lock.hosts = 1, 1
	blocked := lock.state("hung|open")
	blocked.want.cause = "rank.lock|" + away
	missing, dropped := absentKinds()[0], storeKinds()[0]
	missing.short, dropped.short, dropped.want.alone = false, false, nil
	stops := meshKinds()[0]
	stops.short = false
	stops.want.state, stops.want.cause = "hung|open", "mesh.dropped|" // whose sockets they are is not to be seen
	anyNode := func(k kind) kind { k.want.nodes = ""; return k }

	user := lock.named("user-lock").aged().rights(aUser, as(aUser), "")
	user.before = openToAll
	private := sleep.named("user-private").aged().rights(aUser, as(aUser), "the kernel denies it")
	private.before, private.args = openToAll, "--odd 1 --before private"
	fault := hangs("storage-mapped", "mapped", "rank.storage").state("hung|open").onPath(shard).struck(stopStorage)
	fault = fault.small()
	blind := hangs("blind", "blind", away+"|rank.gone").small()
	blind.want.nodes = ""
	blind.env = []string{"LONG=" + strings.Repeat("x", 20000)}
	crowd := hangs("sixty-four-ranks", "sleep", "rank.before-init").by(env)
	crowd.hosts, crowd.per, crowd.want.ranks, crowd.want.nodes = 1, 64, "37", "host0"
	crowd.args, crowd.at = "--odd 37 --before sleep", "0,63:init 37:odd"
	return []kind{
		anyNode(sleep.named("other-user-sleep").rights(container, otherUser, foreign)),
		missing.named("other-user-node-missing").rights(container, otherUser, foreign),
		dropped.named("other-user-store-dropped").rights(container, otherUser, foreign),
		stops.named("other-user-mesh-dropped").rights(container, otherUser, foreign),
		anyNode(blocked.named("no-ptrace-lock").rights(nil, as(noPtrace), capless)),
		anyNode(sleep.named("no-ptrace-sleep").rights(nil, as(noPtrace), capless)),
		dropped.named("no-ptrace-store-dropped").rights(container, func(b *bed, host int) []string {
			return append(inside(b, host), noPtrace...)
		}, ""),
		lock.named("container-no-ptrace").rights(noPtrace, as(noPtrace), ""),
		lock.named("container-inside").rights(container, inside, ""),
		lock.named("container-outside").rights(container, nil, ""),
		lock.named("user-namespace-inside").rights(userSpace, inside, ""),
		lock.named("user-namespace-outside").rights(userSpace, nil, ""),
		user, private, fault, blind, crowd,
	}
}

// openToAll lets any user reach the job's files.
func openToAll(b *bed) {
	for dir := range strings.SplitSeq(filepath.Dir(b.gates)+":"+b.gates+":"+b.lab.Hosts[0].Dir(), ":") {
		if err := os.Chmod(dir, 0o777); err != nil {
			b.t.Fatal(err)
		}
	}
}
