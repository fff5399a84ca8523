package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	const in = `{"Action":"start","Package":"a"}
{"Action":"run","Package":"a","Test":"TestX"}
{"Action":"run","Package":"a","Test":"TestX/one"}
{"Action":"output","Package":"a","Test":"TestX/one","Output":"    x_test.go:3: needs root\n"}
{"Action":"skip","Package":"a","Test":"TestX/one"}
{"Action":"pass","Package":"a","Test":"TestX/two"}
{"Action":"pass","Package":"a","Test":"TestX"}
{"Action":"pass","Package":"a"}
{"Action":"output","Package":"b","Test":"TestY","Output":"    y_test.go:9: got 1\n"}
{"Action":"fail","Package":"b","Test":"TestY"}
{"Action":"fail","Package":"b"}
{"ImportPath":"c","Action":"build-output","Output":"c.go:1: undefined: z\n"}
{"Action":"fail","Package":"c"}
{"Action":"start","Package":"d"}
`
	var out strings.Builder
	if code, again := run(strings.NewReader(in), &out); code != 1 || again != nil {
		t.Errorf("exit status %d, again %q; want 1, and none", code, again)
	}
	for _, want := range []string{
		"a TestX/one: needs root", "got 1", "undefined: z", "d did not end",
		"\n1 passed, 3 failed, 1 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestNoTestIsAFailure(t *testing.T) {
	if code, again := run(strings.NewReader(""), &strings.Builder{}); code != 1 || again != nil {
		t.Errorf("exit status %d, again %q; want 1, and none", code, again)
	}
}

// Few tests that failed may be tried again alone; a panic, a race, a time limit or many failures may not.
func TestAgain(t *testing.T) {
	event := func(action, test, output string) string {
		return fmt.Sprintf("{\"Action\":%q,\"Package\":\"a\",\"Test\":%q,\"Output\":%q}\n", action, test, output)
	}
	failed := event("output", "TestX/one", "x_test.go:3: late\n") + event("fail", "TestX/one", "") +
		event("fail", "TestX", "") + event("pass", "TestY", "")
	end := event("fail", "", "")
	many := ""
	for i := range few {
		many += event("fail", fmt.Sprint("TestM", i), "")
	}
	for name, c := range map[string]struct {
		in   string
		want []string
	}{
		"one":        {failed + end, []string{"a ^TestX$"}},
		"a race":     {event("output", "TestX", "WARNING: DATA RACE\n") + failed + end, nil},
		"a panic":    {event("output", "TestX", "panic: x\n") + failed + end, nil},
		"no end":     {failed, nil},
		"many":       {many + failed + end, nil},
		"no test":    {event("pass", "TestY", "") + end, nil},
		"not ended":  {event("run", "TestZ", "") + failed + end, nil},
		"all passed": {event("pass", "TestY", "") + event("pass", "", ""), nil},
	} {
		if _, again := run(strings.NewReader(c.in), &strings.Builder{}); !slices.Equal(again, c.want) {
			t.Errorf("%s: again %q; want %q", name, again, c.want)
		}
	}
}
