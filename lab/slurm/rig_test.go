package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"launch/lab/netns"
)

// names are the hosts of a cluster: the login node, on which slurmctld runs, and the compute nodes. They
// differ in more than a number, as those of a grown cluster do.
var names = []string{"login", "c7-n11", "gpu01", "gpu02", "gpu03"}

// compute is Slurm's list of the compute nodes.
const compute = "c7-n11,gpu[01-03]"

// config is slurm.conf; NAME.d is the folder of a host, and DIR one that all share.
const config = `ClusterName=lab
SlurmctldHost=login(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=SCHEDULER
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=1
SlurmdTimeout=6
KillWait=2
CompleteWait=0
MinJobAge=300
StateSaveLocation=DIR/state
SlurmctldPidFile=DIR/slurmctld.pid
SlurmctldLogFile=DIR/slurmctld.log
SlurmdSpoolDir=DIR/spool.%n
SlurmdPidFile=DIR/%n.pid
SlurmdLogFile=DIR/%n.log
PrologFlags=Alloc
TaskProlog=DIR/taskprolog
HealthCheckProgram=DIR/health
HealthCheckInterval=2
HealthCheckNodeState=ANY
`

// cluster is a running Slurm.
type cluster struct {
	t     testing.TB
	lab   *netns.Lab
	dir   string // seen by all hosts: slurm.conf, logs, scripts
	usr   string // the folder of Slurm's programs: /usr, or one to be laid over it
	hosts map[string]*netns.Host
}

// usr returns the folder below which Slurm's programs are, or skips the test.
func usr(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("Slurm's daemons need root")
	}
	srun, err := exec.LookPath("srun")
	if err != nil {
		t.Skip("needs Slurm's programs: Debian's packages slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins")
	}
	usr := filepath.Dir(filepath.Dir(srun))
	for _, file := range []string{"sbin/slurmctld-wlm", "sbin/slurmd-wlm", "sbin/munged", "lib/*-linux-gnu/slurm-wlm"} {
		if found, _ := filepath.Glob(filepath.Join(usr, file)); found == nil {
			t.Skipf("needs Debian's Slurm: %s has no %s", usr, file)
		}
	}
	return usr
}

// The schedulers of a cluster. Only backfill starts heterogeneous jobs.
const builtin, backfill = "sched/builtin", "sched/backfill"

// start returns a cluster whose nodes are idle. It ends with the test.
func start(t testing.TB, scheduler string) *cluster {
	t.Helper()
	c := &cluster{t: t, usr: usr(t), hosts: map[string]*netns.Host{}}
	c.lab = netns.New(t, len(names))
	c.lab.MayLeave("*")
	c.dir = t.TempDir()
	c.files(scheduler)
	for i, h := range c.lab.Hosts {
		c.hosts[names[i]] = h
		h.Etc("hosts", c.etcHosts())
		c.prepare(h)
	}
	if out, err := c.command(t.Context(), "login", "true").CombinedOutput(); err != nil {
		t.Skipf("Slurm's programs cannot be laid over /usr (overlayfs): %v: %s", err, out)
	}
	for _, name := range names {
		c.munge(name)
	}
	t.Cleanup(c.endSteps)
	c.daemon("login", "slurmctld-wlm", "-D", "-i")
	for _, name := range names[1:] {
		c.slurmd(name)
	}
	c.wait("all nodes to be idle", func() bool {
		return strings.Count(c.out("sinfo", "-N", "-h", "-o", "%N %t"), " idle") == len(names)-1
	})
	return c
}

// endSteps ends the daemons of steps that could not report their end, since Slurm's other daemons are gone.
// Processes of launch are not among them: the lab reports those.
func (c *cluster) endSteps() {
	for _, h := range c.lab.Hosts {
		for _, p := range h.Processes() {
			var pid int
			if _, err := fmt.Sscan(p, &pid); err == nil && strings.Contains(p, "slurmstepd") {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// files writes slurm.conf, the key of munge, and scripts that do nothing yet.
func (c *cluster) files(scheduler string) {
	conf := strings.NewReplacer("DIR", c.dir, "SCHEDULER", scheduler).Replace(config)
	for i, name := range names[1:] {
		if err := os.Mkdir(c.in("spool."+name), 0o755); err != nil {
			c.t.Fatal(err)
		}
		conf += fmt.Sprintf("NodeName=%s NodeAddr=10.77.0.%d CPUs=64 RealMemory=1000 State=UNKNOWN\n", name, i+2)
	}
	conf += "PartitionName=all Nodes=" + compute + " Default=YES State=UP MaxTime=60\n"
	key := make([]byte, 128)
	_, _ = rand.Read(key)
	c.write("slurm.conf", conf, 0o644)
	c.write("key", string(key), 0o600)
	c.write("cgroup.conf", "CgroupPlugin=cgroup/v1\n", 0o644) // which no plugin of the configuration uses
	c.write("mpi.conf", "PMIxCliTmpDirBase=/run\n", 0o644)    // /tmp is shared by all hosts
	c.script("taskprolog", "exit 0")
	c.script("health", "exit 0")
	if err := errors.Join(os.Mkdir(c.in("state"), 0o755), os.Chmod(c.dir, 0o755),
		os.Chmod(filepath.Dir(c.dir), 0o755)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) in(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, text string, mode os.FileMode) {
	c.t.Helper()
	err := os.WriteFile(c.in(name+".new"), []byte(text), mode)
	if err = errors.Join(err, os.Rename(c.in(name+".new"), c.in(name))); err != nil {
		c.t.Fatal(err)
	}
}

// script writes a shell script that all hosts see, and returns its path.
func (c *cluster) script(name, text string) string {
	c.t.Helper()
	c.write(name, "#!/bin/bash\n"+text+"\n", 0o755)
	return c.in(name)
}

func (c *cluster) etcHosts() string {
	text := "127.0.0.1 localhost\n"
	for i, name := range names {
		text += fmt.Sprintf("10.77.0.%d %s\n", i+1, name)
	}
	return text
}

// prepare gives the commands of a host Slurm's programs, and a /run of its own for munge's socket.
func (c *cluster) prepare(h *netns.Host) {
	if err := os.MkdirAll(filepath.Join(h.Dir(), "run/munge"), 0o755); err != nil {
		c.t.Fatal(err)
	}
	h.Prepare = []string{`mount --bind "$0/run" /run`}
	if c.usr != "/usr" {
		h.Prepare = append(h.Prepare, "mount -t overlay overlay -o 'lowerdir="+c.usr+":/usr' /usr")
	}
}

// command returns a command on a host, which has that name.
func (c *cluster) command(ctx context.Context, host string, argv ...string) *exec.Cmd {
	named := []string{"unshare", "--uts", "/bin/sh", "-c", `hostname "$0" && exec "$@"`, host}
	cmd := c.hosts[host].Command(ctx, slices.Concat(named, argv)...)
	cmd.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF="+c.in("slurm.conf"), "OMP_NUM_THREADS=1")
	cmd.Dir = c.dir
	return cmd
}

// daemon starts a program on a host, and returns it. It ends with the test.
func (c *cluster) daemon(host string, argv ...string) *exec.Cmd {
	c.t.Helper()
	var log strings.Builder
	cmd := c.command(context.WithoutCancel(c.t.Context()), host, argv...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("%s on %s:\n%s", argv[0], host, log.String())
		}
	})
	return cmd
}

// munge starts munged on a host, with a socket of its own.
func (c *cluster) munge(host string) {
	run := filepath.Join(c.hosts[host].Dir(), "run/munge")
	c.daemon(host, "munged", "--foreground", "--force", "--key-file="+c.in("key"), "--log-file="+run+"/log",
		"--pid-file="+run+"/pid", "--seed-file="+run+"/seed")
	c.wait("munged on "+host, func() bool { _, err := os.Stat(run + "/munge.socket.2"); return err == nil })
}

// slurmd starts the daemon of a compute node.
func (c *cluster) slurmd(host string) *exec.Cmd {
	c.t.Helper()
	return c.daemon(host, "slurmd-wlm", "-D", "-N", host, "-d", "/usr/sbin/slurmstepd-wlm")
}

// patience is the time limit of every wait.
const patience = 2 * time.Minute

func (c *cluster) wait(what string, done func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			log, _ := os.ReadFile(c.in("slurmctld.log"))
			c.t.Fatalf("waited %s for %s\n%s", patience, what, log)
		}
	}
}

// out returns what a command on the login node prints; "" if it fails.
func (c *cluster) out(argv ...string) string {
	out, _ := c.command(c.t.Context(), "login", argv...).Output()
	return string(out)
}
