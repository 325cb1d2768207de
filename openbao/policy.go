package openbao

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Role is a job with the least rights that it needs. Each has a policy and, from
// [Setup], an AppRole of its own; a process that does several jobs gets an AppRole with
// several policies ([SetupOptions]).
type Role string

// The roles.
const (
	// RingReader reads the key ring: a server with a local codec.
	RingReader Role = "ring-reader"
	// RingWriter reads and writes the ring and destroys its old versions: foil keys.
	RingWriter Role = "ring-writer"
	// TransitUser seals and opens with the Transit key: a server whose codec is
	// Transit. It can neither read the ring nor change the key.
	TransitUser Role = "transit-user"
	// TransitManager rotates the Transit key and sets what still opens: foil keys. It
	// can neither seal nor open, nor make the key exportable.
	TransitManager Role = "transit-manager"
	// Wrapper parks payloads ([Claims.Issue]).
	Wrapper Role = "wrapper"
	// Redeemer redeems what was parked ([Claims.Redeem], [Claims.Revoke]).
	Redeemer Role = "redeemer"
	// Spender marks IDs as spent ([Replay]). It cannot free one.
	Spender Role = "spender"
	// SweeperRole forgets spent IDs ([Sweeper]). It cannot spend one.
	SweeperRole Role = "sweeper"
)

// Roles returns all roles.
func Roles() []Role {
	return []Role{RingReader, RingWriter, TransitUser, TransitManager, Wrapper, Redeemer, Spender, SweeperRole}
}

// Defaults of [Layout].
const (
	DefaultRingPath    = "foil/ring"
	DefaultTransitPath = "foil-transit/state"
	DefaultSpentMount  = "foil-spent"
	DefaultAuthMount   = "approle"
	DefaultPrefix      = "foil"
)

// A Layout says where things are in the server. The zero value means the defaults.
type Layout struct {
	Ring    string // MOUNT/PATH of the ring, for OpenRing
	Transit string // MOUNT/KEY, for NewTransit
	Spent   string // mount of spent IDs, for OpenReplay; nothing else may use it
	AppRole string // mount of the AppRole method
	Prefix  string // begins the names of policies and AppRoles, with a dash behind it
}

// layout is a Layout that was checked and taken apart.
type layout struct {
	ringMount, ringPath   string
	transitMount, keyName string
	spent, auth, prefix   string
}

func (l *Layout) complete() (layout, error) {
	var o Layout
	if l != nil {
		o = *l
	}
	for _, d := range []struct {
		to  *string
		def string
	}{{&o.Ring, DefaultRingPath}, {&o.Transit, DefaultTransitPath}, {&o.Spent, DefaultSpentMount}, {&o.AppRole, DefaultAuthMount}, {&o.Prefix, DefaultPrefix}} {
		if *d.to == "" {
			*d.to = d.def
		}
	}
	out := layout{spent: o.Spent, auth: o.AppRole, prefix: o.Prefix}
	var err error
	if out.ringMount, out.ringPath, err = splitPath("a ring", o.Ring); err != nil {
		return layout{}, err
	}
	if out.transitMount, out.keyName, err = splitPath("a Transit key", o.Transit); err != nil {
		return layout{}, err
	}
	for _, part := range []string{out.keyName, out.spent, out.auth, out.prefix} {
		if !validPart(part) {
			return layout{}, fmt.Errorf("openbao: %q must be letters, digits, dots, dashes and underscores", clean(part))
		}
	}
	if out.spent == out.ringMount || out.spent == out.transitMount || out.ringMount == out.transitMount {
		return layout{}, errors.New("openbao: the ring, Transit and spent IDs need mounts of their own")
	}
	return out, nil
}

func (l layout) name(r Role) string { return l.prefix + "-" + string(r) }

// Policy returns the text of a role's policy. A nil layout means the defaults.
func Policy(l *Layout, r Role) (string, error) {
	o, err := l.complete()
	if err != nil {
		return "", err
	}
	return o.policy(r)
}

// A rule is a path and what may be done there.
type rule struct {
	path string
	may  []string
	only []string // parameters that may be given; nil for all
}

func (l layout) policy(r Role) (string, error) {
	ring := func(what string) string { return l.ringMount + "/" + what + "/" + l.ringPath }
	key := func(verb, after string) string { return l.transitMount + "/" + verb + "/" + l.keyName + after }
	var what string
	var rules []rule
	switch r {
	case RingReader:
		what = "reads the key ring"
		rules = []rule{{ring("data"), []string{"read"}, nil}}
	case RingWriter:
		what = "reads and writes the key ring and destroys its old versions"
		rules = []rule{{ring("data"), []string{"create", "read", "update"}, nil}, {ring("metadata"), []string{"read"}, nil}, {ring("destroy"), []string{"update"}, nil}}
	case TransitUser:
		what = "seals and opens with the Transit key, and sees its versions"
		rules = []rule{{key("encrypt", ""), []string{"update"}, nil}, {key("decrypt", ""), []string{"update"}, nil}, {key("keys", ""), []string{"read"}, nil}}
	case TransitManager:
		what = "rotates the Transit key and sets which versions open"
		rules = []rule{
			{key("keys", ""), []string{"read"}, nil}, {key("keys", "/rotate"), []string{"update"}, nil}, {key("keys", "/trim"), []string{"update"}, nil},
			{key("keys", "/config"), []string{"update"}, []string{"auto_rotate_period", "min_decryption_version", "min_encryption_version"}},
		}
	case Wrapper:
		what = "parks payloads behind wrapping tokens"
		rules = []rule{{"sys/wrapping/wrap", []string{"update"}, nil}}
	case Redeemer:
		what = "redeems wrapping tokens"
		rules = []rule{{"sys/wrapping/unwrap", []string{"update"}, nil}}
	case Spender:
		what = "marks IDs as spent, and reads what may have been forgotten"
		rules = []rule{
			{l.spent + "/data/" + spentPath + "*", []string{"create", "read", "update"}, nil},
			{l.spent + "/data/" + markPath, []string{"read"}, nil}, {l.spent + "/data/" + pingPath, []string{"create", "update"}, nil},
		}
	case SweeperRole:
		what = "forgets spent IDs when their time is over"
		rules = []rule{
			{l.spent + "/data/" + spentPath + "*", []string{"read"}, nil},
			{l.spent + "/metadata/" + spentPath + "*", []string{"delete", "list"}, nil}, {l.spent + "/metadata/" + strings.TrimSuffix(spentPath, "/"), []string{"list"}, nil},
			{l.spent + "/data/" + markPath, []string{"create", "read", "update"}, nil},
		}
	default:
		return "", fmt.Errorf("openbao: there is no role %q; the roles are %s", clean(string(r)), roleList())
	}
	rules = append(rules,
		rule{"auth/token/lookup-self", []string{"read"}, nil},
		rule{"auth/token/renew-self", []string{"update"}, nil},
		rule{"auth/token/revoke-self", []string{"update"}, nil})
	var b strings.Builder
	fmt.Fprintf(&b, "# %s: %s. Written by foil openbao setup.\n", l.name(r), what)
	for _, ru := range rules {
		fmt.Fprintf(&b, "\npath %q {\n  capabilities = [%s]\n", ru.path, quoted(ru.may))
		if ru.only != nil {
			b.WriteString("  allowed_parameters = {\n")
			for _, p := range ru.only {
				fmt.Fprintf(&b, "    %q = []\n", p)
			}
			b.WriteString("  }\n")
		}
		b.WriteString("}\n")
	}
	return b.String(), nil
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}

func roleList() string {
	var out []string
	for _, r := range Roles() {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}

// checkRoles says why roles must not be one AppRole's.
func checkRoles(roles []Role) error {
	for _, r := range roles {
		if !slices.Contains(Roles(), r) {
			return fmt.Errorf("openbao: there is no role %q; the roles are %s", clean(string(r)), roleList())
		}
	}
	has := func(r Role) bool { return slices.Contains(roles, r) }
	switch {
	case len(roles) == 0:
		return errors.New("openbao: an AppRole needs at least one role")
	case has(TransitUser) && (has(RingReader) || has(RingWriter)):
		return errors.New("openbao: a server that uses Transit so that no key is in its memory must not be able to read the ring: give it transit-user without ring-reader and ring-writer")
	case has(Spender) && has(SweeperRole):
		return errors.New("openbao: who spends must not be able to forget: run the sweeper with an AppRole of its own")
	}
	return nil
}
