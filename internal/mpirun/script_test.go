package mpirun

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// answers runs the script in a shell, as a host does.
func answers(t *testing.T, shell []string, run Run, ask Ask) Facts {
	t.Helper()
	c := exec.Command(shell[0], shell[1:]...)
	c.Stdin = strings.NewReader(run.Script(ask) + "eval \"$launch_at_end\"\n")
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	out, err := c.Output()
	f, ok := ReadFacts(strings.Split(string(out), "\n"))
	if err != nil || !ok {
		t.Fatalf("%v: %s", err, out)
	}
	return f
}

// What limits the threads of OpenMP does not limit the processes of a host.
func TestThreadsOfOpenMPAreNoProcessors(t *testing.T) {
	for _, shell := range []string{"sh", "bash"} {
		f := answers(t, []string{shell, "-c", "export OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1; exec " + shell + " -s"}, Run{},
			Ask{Self: "/none", Hash: "0"})
		if f.Cores != runtime.NumCPU() {
			t.Errorf("%s: %d processors, want %d", shell, f.Cores, runtime.NumCPU())
		}
	}
	one := answers(t, []string{"taskset", "-c", "0", "sh", "-s"}, Run{}, Ask{Self: "/none", Hash: "0"})
	if one.Cores != 1 {
		t.Errorf("of one processor: %d", one.Cores)
	}
}

// Each shell of this machine answers all that the script asks.
func TestScript(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 64)
			n, _ := c.Read(b)
			_, _ = c.Write(append([]byte("heard "), b[:n]...))
			_ = c.Close()
		}
	}()
	dir := t.TempDir()
	for name, text := range map[string]string{"orted": "#!/bin/sh\n", "orterun": "#!/bin/sh\necho run 1.2\n",
		"prog": "#!/bin/sh\n", "it's": "#!/bin/sh\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "data"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := Run{Daemon: filepath.Join(dir, "orted"), Dir: dir,
		Programs: []string{"./prog", "./it's", "./none", "./data", "bash"}}
	ask := Ask{Calls: []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}, Token: "secret", Self: "/none",
		Hash: "0"}
	for _, shell := range [][]string{{"/bin/sh", "-s"}, {"bash", "-s"}, {"busybox", "sh", "-s"}, {"ksh", "-s"}} {
		if _, err := exec.LookPath(shell[0]); err != nil {
			t.Logf("%s: %v", shell[0], err)
			continue
		}
		f := answers(t, shell, run, ask)
		if f.Version != "run 1.2" || !f.InDir || f.Arch == "" || f.Nofile == "" || f.Machine == "" || f.Tmp == "" {
			t.Errorf("%s: %+v", shell, f)
		}
		if d := time.Since(f.Clock); d < 0 || d > time.Minute {
			t.Errorf("%s: its clock is %v behind", shell, d)
		}
		if len(f.Calls) != 1 || f.Calls[0].Said != "heard secret" {
			t.Errorf("%s: calls %+v", shell, f.Calls)
		}
		var found []string
		for _, p := range f.Programs {
			if p.Found && len(p.Hash) == 64 {
				found = append(found, p.Word)
			}
		}
		if got := strings.Join(found, " "); got != "./prog ./it's bash" || len(f.Programs) != 5 ||
			f.Programs[3].Path != "./data" {
			t.Errorf("%s: programs %+v", shell, f.Programs)
		}
		if _, err := os.Stat(f.Tmp); err == nil {
			t.Errorf("%s: %s is left", shell, f.Tmp)
		}
	}
}

func TestFamily(t *testing.T) {
	for text, want := range map[string]string{"libmpi.so.40 libopen-pal.so.40": "openmpi", "libmpi.so.12": "mpich",
		"libmpich.so.12": "mpich", "libmpi.so.12 libopen-pal.so.13": "openmpi", "": ""} {
		if got := family(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}

func FuzzReadFacts(f *testing.F) {
	f.Add("host\th1\nclock\t1.5\nprogram\ta\tfound\t/a\naddresses\teth0 10.0.0.1/8 x")
	f.Fuzz(func(t *testing.T, text string) { ReadFacts(strings.Split(text, "\n")) })
}

// A folder in which no file can be made is named, and nothing remains in the others.
func TestScriptNamesAFolderWithoutRoom(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	c := exec.Command("/bin/sh", "-s")
	c.Stdin = strings.NewReader(Run{}.Script(Ask{}))
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "TMPDIR=" + none}
	out, err := c.Output()
	f, ok := ReadFacts(strings.Split(string(out), "\n"))
	if err != nil || !ok || len(f.Full) == 0 || f.Full[0].Dir != none || f.Full[0].Said == "" {
		t.Errorf("%v %v %q\n%s", err, ok, f.Full, out)
	}
}

// The readlink of BusyBox takes one name, so that a machine would be the same as all its containers.
func TestAHostWithBusyBoxSaysWhichMachineItIs(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox")
	}
	dir := t.TempDir()
	if err := os.Symlink(busybox, dir+"/readlink"); err != nil {
		t.Fatal(err)
	}
	f := answers(t, []string{"sh", "-c", "PATH=" + dir + ":$PATH exec sh -s"}, Run{}, Ask{Self: "/none", Hash: "0"})
	if !strings.Contains(f.Machine, " net:[") || !strings.Contains(f.Machine, " uts:[") ||
		!strings.Contains(f.Machine, " pid:[") {
		t.Errorf("%q", f.Machine)
	}
}

// A host says which mount is in the way of a program and the daemon, and what the version of Hydra's may be.
func TestAHostSaysWhichMountIsNoexec(t *testing.T) {
	dir := t.TempDir()
	shell := []string{"unshare", "-rm", "sh", "-c", "mount -t tmpfs -o noexec tmpfs " + dir + " && cd " + dir +
		" && mkdir a && echo '#!/bin/sh' | tee a/hydra_pmi_proxy >a/prog && chmod 700 a/* && ln -s a b && exec sh -s"}
	if err := exec.Command("unshare", "-rm", "sh", "-c", "mount -t tmpfs -o noexec tmpfs "+dir).Run(); err != nil {
		t.Skipf("needs a namespace of users and mounts: %v", err)
	}
	run := Run{Daemon: dir + "/b/hydra_pmi_proxy", Dir: dir, Programs: []string{"./b/prog"}, Forward: true}
	ask := Ask{Self: "/none", Hash: "0"}
	f := answers(t, shell, run, ask)
	if f.Denied != dir+"/b/hydra_pmi_proxy" || f.Mount != dir || len(f.Programs) != 1 || f.Programs[0].Mount != dir {
		t.Errorf("%+v", f)
	}
	run = Run{Daemon: "hydra_pmi_proxy", Forward: true}
	denied := "mkdir " + dir + "/x && cd " + dir + "/x && printf '#!/bin/sh\\0001.2.3\\0x4.5\\0' >hydra_pmi_proxy && " +
		"PATH=$PWD:$PATH && export PATH && "
	f = answers(t, []string{"sh", "-c", denied + "exec sh -s"}, run, ask)
	if f.Denied != dir+"/x/hydra_pmi_proxy" || f.Mount != "" || f.Daemon != "" {
		t.Errorf("%+v", f)
	}
	f = answers(t, []string{"sh", "-c", "cd " + dir + "/x && chmod 700 * && PATH=$PWD:$PATH exec sh -s"}, run,
		ask)
	if f.Denied != "" || f.Numbers != "1.2.3" {
		t.Errorf("%+v", f)
	}
}
