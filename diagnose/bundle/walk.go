package bundle

import (
	"net/netip"
	"reflect"
	"strings"
	"time"

	"launch/diagnose/scene"
)

// hostFields, portFields and keptFields are the fields of a scene by what they hold: a host, a host with a port, or a
// word of the kernel or of this program. All other texts are searched.
var (
	hostFields = map[string]bool{"Host": true}
	portFields = map[string]bool{"Addr": true, "Master": true}
	keptFields = map[string]bool{"State": true, "Wchan": true, "Kind": true, "Type": true}
)

// hostVariables and hostOptions hold a host, some with a port.
var (
	hostVariables = map[string]bool{"HOSTNAME": true, "MASTER_ADDR": true, "PET_MASTER_ADDR": true,
		"PET_RDZV_ENDPOINT": true}
	hostOptions = map[string]bool{"master-addr": true, "rdzv-endpoint": true, "local-addr": true}
	hostLists   = map[string]bool{"-H": true, "-host": true, "--host": true, "-hosts": true, "--hosts": true}
)

// walk replaces the names and addresses of a scene in place, or learns them.
func (m *Masker) walk(s *scene.Scene) {
	if s.Boot != "" {
		s.Boot = m.id(s.Boot)
	}
	m.value(reflect.ValueOf(s).Elem(), "")
}

func (m *Masker) value(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() { // not a role or an outcome
			m.set(v, m.field(name, v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			m.value(v.Elem(), name)
		}
	case reflect.Slice:
		if argv, ok := v.Interface().([]string); ok && name == "Argv" {
			m.argv(argv)
			return
		}
		for i := range v.Len() {
			m.value(v.Index(i), name)
		}
	case reflect.Map:
		if env, ok := v.Interface().(map[string]string); ok {
			m.environment(env)
		}
	case reflect.Struct:
		m.structure(v)
	}
}

func (m *Masker) structure(v reflect.Value) {
	switch x := v.Interface().(type) {
	case time.Time:
		return
	case netip.Addr:
		if a := m.addr(x); !m.collects {
			v.Set(reflect.ValueOf(a))
		}
		return
	case netip.AddrPort:
		if a := m.addr(x.Addr()); !m.collects {
			v.Set(reflect.ValueOf(netip.AddrPortFrom(a, x.Port())))
		}
		return
	}
	for f, field := range v.Fields() {
		if f.IsExported() && f.Name != "Boot" {
			m.value(field, f.Name)
		}
	}
}

func (m *Masker) set(v reflect.Value, to string) {
	if !m.collects {
		v.SetString(to)
	}
}

// field replaces the text of a field by what it holds.
func (m *Masker) field(name, text string) string {
	switch {
	case hostFields[name]:
		return m.host(text)
	case portFields[name]:
		return m.hostPort(text)
	case keptFields[name]:
		return text
	}
	return m.text(text)
}

func (m *Masker) environment(env map[string]string) {
	for k, v := range env {
		to := ""
		if hostVariables[k] {
			to = m.hostPort(v)
		} else {
			to = m.text(v)
		}
		if !m.collects {
			env[k] = to
		}
	}
}

// argv replaces a command line. The values of some options are hosts, and so is the first argument of ssh.
func (m *Masker) argv(argv []string) {
	target := sshTarget(argv)
	for i, a := range argv {
		to := ""
		name, value, assigned := strings.Cut(a, "=")
		option := strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-")
		before := ""
		if i > 0 {
			before = argv[i-1]
		}
		last := strings.ReplaceAll(strings.TrimLeft(before, "-"), "_", "-")
		switch {
		case assigned && strings.HasPrefix(a, "--") && hostOptions[option]:
			to = name + "=" + m.hostPort(value)
		case strings.HasPrefix(before, "--") && hostOptions[last]:
			to = m.hostPort(a)
		case hostLists[before] && !strings.HasPrefix(a, "-"):
			to = m.list(a)
		case i == target:
			at := strings.LastIndexByte(a, '@')
			if to = m.host(a[at+1:]); at >= 0 {
				to = m.user(a[:at]) + "@" + to
			}
		default:
			to = m.text(a)
		}
		if !m.collects {
			argv[i] = to
		}
	}
}

// sshTarget returns the index of the host that ssh is to reach; -1: it is no ssh, or has none.
func sshTarget(argv []string) int {
	if len(argv) == 0 || argv[0][strings.LastIndexByte(argv[0], '/')+1:] != "ssh" {
		return -1
	}
	for i := 1; i < len(argv); i++ {
		switch a := argv[i]; {
		case !strings.HasPrefix(a, "-"):
			return i
		case len(a) == 2 && strings.Contains("BbcDEeFIiJLlmOopQRSWw", a[1:]): // ssh(1): options with a value
			i++
		}
	}
	return -1
}

// list replaces mpirun's list of hosts: a,b:4.
func (m *Masker) list(text string) string {
	var out []string
	for one := range strings.SplitSeq(text, ",") {
		if strings.ContainsAny(one, "[]") {
			out = append(out, m.text(one))
			continue
		}
		host, slots, ok := strings.Cut(one, ":")
		if host = m.host(host); ok {
			host += ":" + slots
		}
		out = append(out, host)
	}
	return strings.Join(out, ",")
}
