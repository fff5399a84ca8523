package main

import (
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
	if code := run(strings.NewReader(in), &out); code != 1 {
		t.Errorf("exit status %d; want 1", code)
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
	if code := run(strings.NewReader(""), &strings.Builder{}); code != 1 {
		t.Errorf("exit status %d; want 1", code)
	}
}
