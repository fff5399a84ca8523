package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// packages returns the folder with all packages, and the release that they are of.
func packages(t *testing.T) release {
	dir := os.Getenv("LAUNCH_DIST")
	if dir == "" {
		t.Skip("needs LAUNCH_DIST, the folder of make dist: make test-dist")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	version := os.Getenv("LAUNCH_DIST_VERSION")
	return release{version: version, time: time.Unix(1_700_000_000, 0).UTC(), root: root, in: filepath.Join(dir, "bin"),
		out: dir}
}

// one returns the package whose name ends so.
func one(t *testing.T, r release, suffix string) string {
	t.Helper()
	all, _ := filepath.Glob(filepath.Join(r.out, "*"+suffix))
	if len(all) != 1 {
		t.Fatalf("packages *%s: %v; want one", suffix, all)
	}
	return all[0]
}

// need skips without a program.
func need(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			t.Skipf("needs %s", n)
		}
	}
}

func run(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// runs checks that a program is launch, of this release.
func runs(t *testing.T, r release, argv ...string) {
	t.Helper()
	if out := run(t, append(argv, "version")...); !strings.HasPrefix(out, "launch "+r.version) {
		t.Errorf("%q prints %q", argv, out)
	}
}

func TestTheWheelPutsLaunchOnPath(t *testing.T) {
	r := packages(t)
	need(t, "python3")
	venv := t.TempDir()
	run(t, "python3", "-m", "venv", venv)
	run(t, venv+"/bin/python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--pre",
		"--find-links", r.out,
		strings.ReplaceAll(distribution, "_", "-"))
	runs(t, r, venv+"/bin/launch")
	run(t, venv+"/bin/python", "-m", "pip", "uninstall", "--quiet", "--yes", strings.ReplaceAll(distribution, "_", "-"))
	if _, err := os.Stat(venv + "/bin/launch"); err == nil {
		t.Error("pip does not remove it")
	}
}

func TestTheArchiveRunsWhereItIsUnpacked(t *testing.T) {
	r := packages(t)
	dir := t.TempDir()
	run(t, "tar", "-xzf", one(t, r, runtime.GOARCH+".tar.gz"), "-C", dir)
	runs(t, r, filepath.Join(dir, r.folder(runtime.GOARCH), "bin/launch"))
}

// The packages are installed by dpkg and rpm into folders that have nothing else, and the static program runs there.
func TestDebAndRpmInstall(t *testing.T) {
	r := packages(t)
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	static := func(t *testing.T, dir string) {
		program := "/usr/bin/launch-static"
		if _, err := os.Stat(dir + program); err != nil {
			program = "/usr/bin/launch"
		}
		runs(t, r, "chroot", dir, program)
		page := run(t, "gzip", "-dc", dir+"/usr/share/man/man1/launch.1.gz")
		for _, want := range []string{".SH NAME", ".SH SUBCOMMANDS", ".SH EXIT STATUS", "launch doctor"} {
			if !strings.Contains(page, want) {
				t.Errorf("the manual page has no %q", want)
			}
		}
	}
	t.Run("deb", func(t *testing.T) {
		need(t, "dpkg")
		dir := t.TempDir()
		for _, d := range []string{"info", "updates", "triggers"} {
			if err := os.MkdirAll(filepath.Join(dir, "var/lib/dpkg", d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "var/lib/dpkg/status"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		run(t, "dpkg", "--root", dir, "--force-depends", "--install", one(t, r, runtime.GOARCH+".deb"))
		static(t, dir)
		run(t, "dpkg", "--root", dir, "--remove", "launch-preflight")
		if _, err := os.Stat(filepath.Join(dir, "usr/bin/launch")); err == nil {
			t.Error("dpkg does not remove it")
		}
	})
	t.Run("rpm", func(t *testing.T) {
		need(t, "rpm")
		dir := t.TempDir()
		run(t, "rpm", "--root", dir, "--initdb")
		run(t, "rpm", "--root", dir, "--install", "--nodeps", one(t, r, runtime.GOARCH+".rpm"))
		static(t, dir)
	})
}

func TestTheImageHasOneLaunchForEachArchitecture(t *testing.T) {
	r := packages(t)
	dir := t.TempDir()
	run(t, "tar", "-xf", one(t, r, "image.tar"), "-C", dir)
	type descriptor struct {
		Digest   string
		Platform struct{ Architecture string }
	}
	read := func(d descriptor, into any) []byte {
		data, err := os.ReadFile(filepath.Join(dir, "blobs", strings.Replace(d.Digest, ":", "/", 1)))
		if err == nil && into != nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var top, index struct{ Manifests []descriptor }
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil || json.Unmarshal(data, &top) != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %s, %v", data, err)
	}
	read(top.Manifests[0], &index)
	var archs []string
	for _, m := range index.Manifests {
		archs = append(archs, m.Platform.Architecture)
		var image struct {
			Config descriptor
			Layers []descriptor
		}
		read(m, &image)
		var config struct{ Config struct{ Entrypoint []string } }
		read(image.Config, &config)
		if !slices.Equal(config.Config.Entrypoint, []string{"/launch"}) || len(image.Layers) != 1 {
			t.Errorf("%s: %+v, %d layers", m.Platform.Architecture, config, len(image.Layers))
		}
		if m.Platform.Architecture != runtime.GOARCH {
			continue
		}
		layer := filepath.Join(t.TempDir(), "layer")
		if err := os.WriteFile(layer, read(image.Layers[0], nil), 0o644); err != nil {
			t.Fatal(err)
		}
		root := t.TempDir()
		run(t, "tar", "-xf", layer, "-C", root)
		runs(t, r, root+"/launch")
		volume := t.TempDir()
		run(t, root+"/launch", "copy", volume)
		runs(t, r, volume+"/launch")
	}
	if slices.Sort(archs); !slices.Equal(archs, []string{"amd64", "arm64"}) {
		t.Errorf("architectures %v", archs)
	}
}

func TestTheOtherArchitectureRunsUnderQemu(t *testing.T) {
	r := packages(t)
	need(t, "qemu-aarch64-static")
	runs(t, r, "qemu-aarch64-static", filepath.Join(r.in, "arm64/launch-static"))
}

func TestShellsAcceptTheCompletions(t *testing.T) {
	r := packages(t)
	for shell, file := range map[string]string{"bash": "bash-completion/completions/launch",
		"zsh": "zsh/site-functions/_launch", "fish": "fish/vendor_completions.d/launch.fish"} {
		t.Run(shell, func(t *testing.T) {
			need(t, shell)
			dir := t.TempDir()
			run(t, "tar", "-xzf", one(t, r, runtime.GOARCH+".tar.gz"), "-C", dir)
			script := filepath.Join(dir, r.folder(runtime.GOARCH), "share", file)
			run(t, shell, "-n", script)
			if shell == "fish" {
				t.Setenv("PATH", filepath.Join(dir, r.folder(runtime.GOARCH), "bin")+":"+os.Getenv("PATH"))
				out := run(t, shell, "-c", "source "+script+"; complete -C 'launch --join'")
				if !strings.Contains(out, "--join-timeout") {
					t.Errorf("fish completes %q", out)
				}
			}
		})
	}
}

// The same binaries, version and time give the same bytes.
func TestPackagesAreTheSameTwice(t *testing.T) {
	r := packages(t)
	var made [2]map[string][]byte
	for i := range made {
		r.out, made[i] = t.TempDir(), map[string][]byte{}
		if err := r.make("99"); err != nil {
			t.Fatal(err)
		}
		files, _ := os.ReadDir(r.out)
		for _, f := range files {
			made[i][f.Name()], _ = os.ReadFile(filepath.Join(r.out, f.Name()))
		}
	}
	for name, data := range made[0] {
		if !bytes.Equal(data, made[1][name]) {
			t.Errorf("%s differs", name)
		}
	}
	if len(made[0]) < 10 || len(made[0]) != len(made[1]) {
		t.Errorf("%d and %d files", len(made[0]), len(made[1]))
	}
}

func TestABinaryForANewerLibraryIsRefused(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{{"2.28", "2.34", true}, {"2.34", "2.28", false}, {"2.28", "2.28", false}, {"2.2.5", "2.28", true},
		{"2.28", "2.28.1", true}} {
		if got := older(tc.a, tc.b); got != tc.want {
			t.Errorf("%s is older than %s: %t", tc.a, tc.b, got)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := floorOf(self); err != nil {
		t.Error(err)
	}
}

func TestVersionsOfPackages(t *testing.T) {
	for version, want := range map[string]string{"v0.3.0": "0.3.0", "dev": "0.0.0", "v1.2.3-4-gabc": "1.2.3",
		"": "0.0.0"} {
		if got := (release{version: version}).plain(); got != want {
			t.Errorf("%q gives %q, want %q", version, got, want)
		}
	}
}

func TestTablesBecomeLists(t *testing.T) {
	got := rows("text\n\n| type | to |\n|---|---|\n| `launch x` | do it |\n\nmore\n")
	if want := "text\n\n**launch x**\n:   do it\n\n\nmore\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNamesInTheArchive(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	if err := put(filepath.Join(dir, "usr/bin/launch"), []byte("x"), true); err != nil {
		t.Fatal(err)
	}
	if err := (release{}).tar(&out, build{tree: dir}, func(name string) string { return "a/" + name }); err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(&out).Next()
	if err != nil || h.Name != "a/usr/bin/launch" || h.Mode != 0o755 {
		t.Errorf("%+v, %v", h, err)
	}
	_, _ = io.Copy(io.Discard, &out)
}
