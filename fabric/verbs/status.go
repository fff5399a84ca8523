package verbs

import "fmt"

// Statuses of a work completion that matter elsewhere (enum ibv_wc_status).
const (
	flushed     = 5  // WR_FLUSH_ERR
	retriesOver = 12 // RETRY_EXC_ERR
	rnrOver     = 13 // RNR_RETRY_EXC_ERR
	fatal       = 19 // FATAL_ERR
)

// status is a status of libibverbs: its name, its meaning, its cause.
type status struct {
	name, words string
	cause       Cause
}

var statuses = map[int]status{
	1:       {"LOC_LEN_ERR", "a message is longer than this end allows", Rejected},
	2:       {"LOC_QP_OP_ERR", "this end's device found the request inconsistent", Rejected},
	4:       {"LOC_PROT_ERR", "this end's device may not read the memory", Rejected},
	flushed: {"WR_FLUSH_ERR", "the connection had failed before", Lost},
	7:       {"BAD_RESP_ERR", "the answer does not match the request", Rejected},
	8:       {"LOC_ACCESS_ERR", "this end's memory was protected", Rejected},
	9: {"REM_INV_REQ_ERR", "the other end's device considers the request invalid: another MTU, or another " +
		"length", Rejected},
	10:          {"REM_ACCESS_ERR", "the other end's device protects its memory from the request", Rejected},
	11:          {"REM_OP_ERR", "the other end's device could not carry out the request", Rejected},
	retriesOver: {"RETRY_EXC_ERR", "the other end's port does not acknowledge", Unreachable},
	rnrOver:     {"RNR_RETRY_EXC_ERR", "the other end did not become ready to receive", Rejected},
	16:          {"REM_ABORT_ERR", "the other end aborted the connection", Lost},
	fatal:       {"FATAL_ERR", "the device has failed", Gone},
	20:          {"RESP_TIMEOUT_ERR", "the answer took too long", Unreachable},
	21:          {"GENERAL_ERR", "the device does not say why", Other},
}

// completion returns the failure of a work completion.
func completion(step string, code int, vendor uint32) *Error {
	s, ok := statuses[code]
	if !ok {
		s = status{fmt.Sprintf("status %d", code), "the library has no name for it", Other}
	}
	e := &Error{Cause: s.cause, Step: step, Status: code, Text: fmt.Sprintf("%s: %s (%s)", step, s.words, s.name)}
	if vendor != 0 {
		e.Text += fmt.Sprintf(", vendor error %#x", vendor)
	}
	return e
}
