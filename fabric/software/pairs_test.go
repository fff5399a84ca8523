package software

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// build compiles a shared library in dir.
func build(t *testing.T, dir, name, source, versions string, more ...string) {
	t.Helper()
	for file, text := range map[string]string{name + ".c": source, name + ".map": versions} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"-shared", "-fPIC", "-o", name, name + ".c"}, more...)
	if versions != "" {
		args = append(args, "-Wl,--version-script="+name+".map")
	}
	cmd := exec.Command("gcc", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func TestWhatAPluginOffersAndNeeds(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("builds libraries: %v", err)
	}
	dir := t.TempDir()
	soname := "-Wl,-soname,libfabric.so.1"
	build(t, dir, "new.so", "int fi_a(void) { return 1; }\nint fi_b(void) { return 1; }\n",
		"FABRIC_1.0 { global: fi_a; local: *; };\nFABRIC_1.8 { global: fi_b; } FABRIC_1.0;\n", soname)
	build(t, dir, "old.so", "int fi_a(void) { return 1; }\n", "FABRIC_1.0 { global: fi_a; local: *; };\n", soname)
	build(t, dir, "plain.so", "int fi_a(void) { return 1; }\nint fi_b(void) { return 1; }\n", "", soname)
	build(t, dir, "plugin.so", "int fi_a(void);\nint fi_b(void);\nint ncclNetPlugin_v9 = 1, ncclNetPlugin_v10 = 1;\n"+
		"int ncclCollNetPlugin_v8 = 1;\nextern int ncclNetPlugin_v3;\nint *other(void) { return &ncclNetPlugin_v3; }\n"+
		"int use(void) { return fi_a() + fi_b(); }\n", "", "new.so", "-Wl,--unresolved-symbols=ignore-all")
	f := files{os.DirFS(dir)}
	if got := f.netVersions("/plugin.so"); !slices.Equal(got, []int{9, 10}) {
		t.Errorf("the plugin has %v", got)
	}
	if got := f.netVersions("/old.so"); got != nil {
		t.Errorf("a library that is no plugin has %v", got)
	}
	for library, want := range map[string][]string{"new.so": nil, "plain.so": nil, "old.so": {"FABRIC_1.8"},
		"no.so": nil} {
		if got := f.lacks("/plugin.so", "libfabric.so.1", "/"+library); !slices.Equal(got, want) {
			t.Errorf("with %s the plugin lacks %v, want %v", library, got, want)
		}
	}
	if got := f.lacks("/plugin.so", "libucp.so.0", "/old.so"); got != nil {
		t.Errorf("of a library that it does not need it lacks %v", got)
	}
}

func TestTheCUDAOfNCCL(t *testing.T) {
	for text, want := range map[string]string{
		"CCL version 2.27.5+cuda12.9": "12.9", "CCL version 2.18.3-foo+cuda11.0\x00": "11.0",
		"CCL version 2.21.5+hip6.2": "", "CCL version 2.27.5": "",
	} {
		got := ""
		if m := ncclCUDA.FindStringSubmatch(text); m != nil {
			got = m[1]
		}
		if got != want {
			t.Errorf("%q is for CUDA %q, want %q", text, got, want)
		}
	}
}
