package mpi

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"launch/lab/netns"
)

// upLimit is how long a host may take until its sshd listens.
const upLimit = 30 * time.Second

//go:embed testdata/init.sh
var initScript string

// Host is one host of a rig. It has the means of netns.Host to break its network; Command and Run of
// that type do not enter its file system.
type Host struct {
	*netns.Host

	rig    *Rig
	number int
	init   *exec.Cmd
	pid    string        // its first process, as this machine counts
	said   *bufio.Reader // what its first process prints
	errs   netns.Output  // and its errors
}

// stage writes the host's own files into a directory, from which the first process copies them.
func (h *Host) stage(k keys, world string) {
	t := h.rig.t
	t.Helper()
	put := func(name, text string, mode os.FileMode) {
		file := filepath.Join(h.top(), "files", name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(text), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(h.top(), "fs"), 0o755); err != nil {
		t.Fatal(err)
	}
	hosts := "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"
	for _, other := range h.rig.Lab.Hosts {
		hosts += fmt.Sprintf("%s %s %s.lab\n", other.Addr, other.Name, other.Name)
	}
	put("etc/hosts", hosts, 0o644)
	put("etc/boot_id", fmt.Sprintf("%08d-0000-4000-8000-000000000000\n", h.number+1), 0o644) // UCX reads it as a UUID
	put("etc/hostname", h.Name+"\n", 0o644)
	put("etc/resolv.conf", "# no name server\n", 0o644)
	put("etc/passwd", accounts, 0o644)
	put("etc/shadow", "root:*:19000::::::\nuser:*:19000::::::\nsshd:*:19000::::::\nnobody:*:19000::::::\n", 0o600)
	put("etc/group", "root:x:0:\ntty:x:5:\nshadow:x:42:\nuser:x:1000:\nnogroup:x:65534:\n", 0o644)
	put("etc/ssh/sshd_config", sshdConfig, 0o644)
	put("etc/ssh/ssh_host_key", read(t, k.hosts[h.Name]), 0o600)
	put("etc/ssh/ssh_known_hosts", k.known, 0o644)
	put("var/log/sshd.log", "", 0o600)
	put("usr/sbin/sshd", read(t, h.rig.sshd), 0o755)
	libs, _ := filepath.Glob(filepath.Join(filepath.Dir(h.rig.sshd), "../lib/*/libwrap.so.0"))
	for _, lib := range libs { // unpacked with it
		put("usr/lib/libwrap.so.0", read(t, lib), 0o644)
	}
	rc := "export " + strings.Join(h.rig.MPI.Env(), " ") + "\n" // sshd's bash reads it in each shell
	for _, home := range []string{"root", "home/user"} {
		put(home+"/.ssh/id_ed25519", read(t, k.user), 0o600)
		put(home+"/.ssh/authorized_keys", read(t, k.user+".pub"), 0o600)
		put(home+"/.bashrc", rc, 0o644)
	}
	put(Job+"/world", read(t, world), 0o755)
}

const accounts = `root:x:0:0:root:/root:/bin/bash
user:x:1000:1000:user:/home/user:/bin/bash
sshd:x:101:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`

const sshdConfig = `HostKey /etc/ssh/ssh_host_key
PidFile /run/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
`

// top is the directory of this machine for the host's root file system.
func (h *Host) top() string { return filepath.Join(h.Dir(), "mpi") }

// boot starts the first process of the host.
func (h *Host) boot() {
	t := h.rig.t
	t.Helper()
	repo, err := filepath.EvalSymlinks(repository())
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", initScript,
		"init", h.top(), h.Name, repo}
	for _, m := range known {
		if m.Prefix != "" && m.find() == "" {
			argv = append(argv, m.dir, m.Prefix)
		}
	}
	h.init = h.Host.Command(context.Background(), argv...)
	h.init.Env = append(h.init.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	h.init.Stderr = &h.errs
	out, err := h.init.StdoutPipe()
	if err == nil {
		err = h.init.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	h.said = bufio.NewReader(out)
	t.Cleanup(h.shutDown)
}

// awaitReady waits until sshd listens.
func (h *Host) awaitReady() {
	t := h.rig.t
	t.Helper()
	late := time.AfterFunc(upLimit, func() { _ = h.init.Process.Kill() })
	defer late.Stop()
	if line, err := h.said.ReadString('\n'); err != nil {
		t.Fatalf("%s has not booted: %q %v\n%s", h.Name, line, err, h.errs.String())
	}
	parent := fmt.Sprint(h.init.Process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", parent, "task", parent, "children"))
	if h.pid = strings.TrimSpace(string(children)); err != nil || h.pid == "" {
		t.Fatalf("%s: no first process: %v", h.Name, err)
	}
	h.Sh("until [ -e /run/sshd.pid ]; do sleep 0.02; done")
}

// shutDown ends all processes of the host, whose first one ends with its parent.
func (h *Host) shutDown() {
	_ = h.init.Process.Kill()
	_, _ = io.Copy(io.Discard, h.said)
	_ = h.init.Wait()
	if h.rig.t.Failed() {
		h.rig.t.Logf("%s: %s", h.Name, h.errs.String())
	}
}

// As returns a command of a user on this host, in the home directory, with the environment of a
// login. What it has started may outlive it, until the host ends.
func (h *Host) As(ctx context.Context, user string, argv ...string) *exec.Cmd {
	id, home := "0", "/root"
	if user == User {
		id, home = "1000", "/home/user"
	}
	enter := []string{"-t", h.pid, "-m", "-u", "-i", "-n", "-p", "setpriv", "--reuid", id, "--regid", id, "--clear-groups",
		"--pdeathsig", "KILL", "sh", "-c", `cd && exec "$@"`, "sh"}
	cmd := exec.CommandContext(ctx, "nsenter", slices.Concat(enter, argv)...)
	cmd.Env = append([]string{"HOME=" + home, "USER=" + user, "LOGNAME=" + user, "SHELL=/bin/bash", "LANG=C.UTF-8",
		"TERM=xterm"}, h.rig.MPI.Env()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// Sh runs a shell script on this host as root, and returns what it prints. A failure fails the test.
func (h *Host) Sh(script string) string {
	t := h.rig.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	cmd := h.As(ctx, "root", "sh", "-ec", script)
	cmd.Env = append(cmd.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", h.Name, script, err, out)
	}
	return string(out)
}

// Write writes a file of the user's on this host.
func (h *Host) Write(file, text string) {
	t := h.rig.t
	t.Helper()
	cmd := h.As(t.Context(), User, "sh", "-c", `cat >"$0"`, file)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: write %s: %v\n%s", h.Name, file, err, out)
	}
}

// Install copies a program of this machine into /usr/local/bin of this host.
func (h *Host) Install(program, name string) {
	t := h.rig.t
	t.Helper()
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := h.As(t.Context(), "root", "sh", "-c", `cat >"/usr/local/bin/$0" && chmod 755 "/usr/local/bin/$0"`, name)
	cmd.Stdin = f
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: install %s: %v\n%s", h.Name, name, err, out)
	}
}

// Sshd adds lines to the configuration of sshd, which then begins anew.
func (h *Host) Sshd(lines ...string) {
	h.rig.t.Helper()
	h.Sh("printf '%s\\n' '" + strings.Join(lines, "' '") + "' >/tmp/first && " +
		"cat /tmp/first /etc/ssh/sshd_config >/tmp/config && cat /tmp/config >/etc/ssh/sshd_config && " +
		"rm /tmp/first /tmp/config && kill $(cat /run/sshd.pid) && rm -f /run/sshd.pid && " +
		"until [ -e /run/sshd.pid ]; do sleep 0.02; done")
}
