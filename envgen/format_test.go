package envgen

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"launch/internal/setting"
)

func TestShellLeavesKeptValuesAlone(t *testing.T) {
	got, err := Render("shell", Plan{{Name: "A", Value: "=eth0"}, {Name: "B", Value: "x", Kept: true, User: "y"},
		{Name: "C", Value: "10.0.0.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("export A='=eth0';\nexport C=10.0.0.0/24;\n", got); diff != "" {
		t.Errorf("Shell (-want +got):\n%s", diff)
	}
}

func TestShellRefusesWhatPOSIXCannotQuote(t *testing.T) {
	if got, err := Render("shell", Plan{{Name: "A", Value: "a\x01b"}}); err == nil {
		t.Errorf("Shell = %q, want an error", got)
	}
}

// Whatever the value, sh ends up with exactly it in the environment, and
// nothing else runs.
func TestShellSurvivesARealShell(t *testing.T) {
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip("no env program here")
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		special := []rune("'\"\\$\x60!*?[]{}();|&<>~#= ^%,:-a0é")
		value := rapid.StringOf(rapid.OneOf(rapid.RuneFrom(special), rapid.Rune())).Draw(t, "value")
		script, err := Render("shell",
			Plan{{Name: "LAUNCH_TEST_A", Value: value}, {Name: "LAUNCH_TEST_B", Value: "end"}})
		if err != nil {
			t.Skip("not quotable")
		}
		cmd := exec.Command("sh", "-c", `eval "$1"; exec "$2" -0`, "sh", script, env)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("sh: %v on %q", err, script)
		}
		got := map[string]string{}
		for entry := range strings.SplitSeq(string(out), "\x00") {
			if name, v, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, "LAUNCH_TEST_") {
				got[name] = v
			}
		}
		if diff := cmp.Diff(map[string]string{"LAUNCH_TEST_A": value, "LAUNCH_TEST_B": "end"}, got); diff != "" {
			t.Fatalf("environment (-want +got):\n%s", diff)
		}
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("a value was executed: it made %v", left)
	}
}

// evaluate is what a shell would make of assignments and words, without a
// shell, and fails on everything but literals and quotes.
func evaluate(t interface{ Fatalf(string, ...any) }, text string) []string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	if err != nil {
		t.Fatalf("%q is no shell: %v", text, err)
	}
	var out []string
	word := func(w *syntax.Word) string {
		var b strings.Builder
		for _, part := range w.Parts {
			switch x := part.(type) {
			case *syntax.Lit:
				b.WriteString(unescape(x.Value))
			case *syntax.SglQuoted:
				b.WriteString(x.Value)
			case *syntax.DblQuoted:
				for _, inner := range x.Parts {
					lit, ok := inner.(*syntax.Lit)
					if !ok {
						t.Fatalf("%q would be evaluated", text)
					}
					b.WriteString(unescape(lit.Value))
				}
			default:
				t.Fatalf("%q would be evaluated", text)
			}
		}
		return b.String()
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			for _, a := range call.Assigns {
				value := ""
				if a.Value != nil {
					value = word(a.Value)
				}
				out = append(out, a.Name.Value+"="+value)
			}
			for _, w := range call.Args {
				out = append(out, word(w))
			}
		}
		return true
	})
	return out
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// Whatever the value, each format gives it back to its reader, or refuses it.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"=eth0", "10.0.0.0/24", "AWS Libfabric", "$(id) $HOME `x` ${A}", "a'b\"c\\d",
		"{\"cluster\": 1}", "# x", "$$(A)", "é\u2028", "-x", "~", "!!", "a: b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		p := Plan{{Name: "A", Value: value, Scope: setting.Job}, {Name: "B", Value: value, Scope: setting.Node},
			{Name: "C", Value: "kept", Kept: true}}
		if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
			return // no value of ours, and none that execve or YAML holds
		}
		if s, err := Render("dotenv", p); err == nil {
			if diff := cmp.Diff([]string{"A=" + value, "B=" + value}, evaluate(t, s)); diff != "" {
				t.Errorf("dotenv (-want +got):\n%s", diff)
			}
		}
		if s, err := Render("mpirun", p); err == nil {
			if diff := cmp.Diff([]string{"-x", "A=" + value}, evaluate(t, s)); diff != "" {
				t.Errorf("mpirun (-want +got):\n%s", diff)
			}
		}
		if s, err := Render("hydra", p); err == nil {
			if diff := cmp.Diff([]string{"-genv", "A", value}, evaluate(t, s)); diff != "" {
				t.Errorf("hydra (-want +got):\n%s", diff)
			}
		}
		want := map[string]string{"A": value, "B": value}
		s, err := Render("json", p)
		var object map[string]string
		if err := errors.Join(err, json.Unmarshal([]byte(s), &object)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, object); diff != "" {
			t.Errorf("JSON (-want +got):\n%s", diff)
		}
		s, err = Render("kubernetes", p)
		var pod struct {
			Env []struct{ Name, Value string }
		}
		if err := errors.Join(err, yaml.UnmarshalStrict([]byte(s), &pod)); err != nil {
			t.Fatalf("%v in %q", err, s)
		}
		got := map[string]string{}
		for _, e := range pod.Env {
			got[e.Name] = kubelet(e.Value)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Kubernetes (-want +got):\n%s", diff)
		}
	})
}

// kubelet expands a value as the kubelet does (third_party/forked/golang
// expansion), where no variable is known: $$ is $, $(NAME) stays.
func kubelet(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '$' && i+1 < len(s) && s[i+1] == '$' {
			i++
		} else if s[i] == '$' && i+1 < len(s) && s[i+1] == '(' {
			return "a reference: " + s
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func TestFormatsMarkFactsOfANode(t *testing.T) {
	p := Plan{{Name: "NCCL_SOCKET_IFNAME", Value: "=eth0", Scope: setting.Node},
		{Name: "NCCL_NET", Value: "Socket", Scope: setting.Job}}
	for _, tt := range []struct{ format, want string }{
		{"mpirun", "-x NCCL_NET=Socket\n"},
		{"hydra", "-genv NCCL_NET Socket\n"},
		{"kubernetes", "env:\n- name: NCCL_SOCKET_IFNAME\n  value: \"=eth0\"   # a fact of this node: not for pods " +
			"on other nodes\n- name: NCCL_NET\n  value: \"Socket\"\n"},
		{"dotenv", "NCCL_SOCKET_IFNAME==eth0\nNCCL_NET=Socket\n"},
		{"json", "{\n  \"NCCL_NET\": \"Socket\",\n  \"NCCL_SOCKET_IFNAME\": \"=eth0\"\n}\n"},
	} {
		got, err := Render(tt.format, p)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.format, err, diff)
		}
	}
	if _, err := Render("yaml", p); err == nil {
		t.Error("an unknown format is accepted")
	}
	for _, f := range Formats() {
		if got, err := Render(f, nil); err != nil || strings.Contains(got, "null") {
			t.Errorf("%s of an empty plan: %q, %v", f, got, err)
		}
	}
}
