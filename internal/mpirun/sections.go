package mpirun

import "strconv"

// Section is one program of a line that has several.
type Section struct {
	NP    int    `json:"np,omitempty"` // 0: not said, which is as many as there are slots
	Hosts []Host `json:"hosts"`        // of its own --host, else those of all programs; each with its slots
}

// sections returns the programs of a line whose hosts are those of --host alone; nil: launch does not know how Open MPI
// counts their slots. Open MPI 4.1 looks at each --host alone. Where two programs name one host, Open MPI 5.0 adds the
// numbers for some lines and not for others, so that such a line is not counted. listed: a hostfile or an allocation
// has hosts, too, which a program without --host may get.
func (r *reader) sections(listed bool) (out []Section) {
	by, mapped := r.option("map-by")
	if placing := r.placing(); r.hydra() || len(r.Line.Starts) < 2 || placing != "" && placing != "--map-by node" ||
		mapped && by != "node" && by != "slot" {
		return nil
	}
	var all []Host
	for i, start := range r.Line.Starts {
		end := len(r.Line.Argv)
		if i+1 < len(r.Line.Starts) {
			end = r.Line.Starts[i+1] - 1
		}
		var s Section
		for _, o := range r.Line.Options {
			if n, err := strconv.Atoi(o.Value); err == nil && o.Name == "np" && o.At >= start && o.At < end {
				s.NP = n
			}
		}
		for _, m := range r.typed(start, end) {
			if m.Slots == 0 {
				return nil
			}
			s.Hosts = r.add(s.Hosts, m)
		}
		for _, h := range s.Hosts {
			at := indexOf(all, h.Name)
			switch {
			case at < 0:
				all = append(all, h)
			case r.Line.MPI != "openmpi4":
				return nil
			default:
				all[at].Slots = h.Slots // the last number counts
			}
		}
		out = append(out, s)
	}
	for i := range out {
		if len(out[i].Hosts) == 0 {
			if listed {
				return nil
			}
			out[i].Hosts = all
		}
	}
	return out
}
