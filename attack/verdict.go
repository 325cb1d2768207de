package attack

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/foilmcp/foil"
)

// The verdicts. Attacks that present one token several times have "1 of 5" and
// the like, and "recorded x4" where all but one were [Recorded]. Everything else
// that a row says is a finding in words, and is not as expected.
const (
	// Accepted: the call ran to its end.
	Accepted = "accepted"
	// Refused: the reply was exactly the frozen error, or for the attacks on
	// parsing that of ambiguous arguments.
	Refused = "refused"
	// Recorded: the reply was the result that the first presentation got, byte
	// for byte but for the JSON-RPC id and a fresh state, and nothing was done.
	Recorded = "recorded"
	// AskedAgain: the server asked its question anew and did nothing.
	AskedAgain = "asked-again"
	// Unavailable: the reply was the frozen error of a system failure.
	Unavailable = "unavailable"
	// Holds: there is nothing to be seen.
	Holds = "holds"
	// NotVisible: this door cannot show the attack.
	NotVisible = "not-visible"
)

// Kinds of replies that are no verdict by themselves.
const (
	ambiguous   = "refused as ambiguous arguments"
	serverError = "the server's own error"
	unreadable  = "no JSON-RPC reply"
	inProgress  = "told that the operation is in progress"
	unknown     = "told that the operation's outcome is unknown"
	retold      = "told another result than the first time"
)

// An outcome is a reply that has been read.
type outcome struct {
	kind      string
	reply     *Reply
	questions json.RawMessage
	token     string
	told      []byte // the result without its state; nil for an error
	again     repeat
}

var frozen = []struct {
	kind string
	wire *foil.WireError
}{
	{Refused, foil.Wire(foil.ErrInvalid)},
	{ambiguous, foil.Wire(foil.ErrAmbiguous)},
	{Unavailable, foil.Wire(foil.ErrUnavailable)},
}

// read classifies a reply.
func read(r *Reply) outcome {
	o := outcome{kind: unreadable, reply: r}
	var msg struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(r.Body, &msg) != nil {
		if r.HungUp || r.Status >= 400 && r.Status < 500 {
			o.kind = serverError // its transport said no
		}
		return o
	}
	if msg.Error != nil {
		o.kind = serverError
		for _, f := range frozen {
			if isError(msg.Error, f.wire) {
				o.kind = f.kind
			}
		}
		if kind := operation(msg.Error); kind != "" {
			o.kind = kind
		}
		return o
	}
	var res struct {
		Type      string          `json:"resultType"`
		Questions json.RawMessage `json:"inputRequests"`
		Token     string          `json:"requestState"`
	}
	if msg.Result == nil || json.Unmarshal(msg.Result, &res) != nil {
		return o
	}
	o.told = stateless(msg.Result, res.Token)
	switch res.Type {
	case "input_required":
		o.kind, o.questions, o.token = AskedAgain, res.Questions, res.Token
	case "complete", "":
		o.kind = Accepted
	}
	return o
}

// isError reports whether the error object says just what w says.
func isError(raw json.RawMessage, w *foil.WireError) bool {
	var e foil.WireError
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(&e) != nil {
		return false
	}
	var data bytes.Buffer
	return e.Code == w.Code && e.Message == w.Message && json.Compact(&data, e.Data) == nil && data.String() == string(w.Data)
}

const (
	redacted = "[redacted]"
	mostWire = 2048
)

var (
	stateMember = regexp.MustCompile(`("requestState"\s*:\s*)"(?:[^"\\]|\\.)*"`)
	claimText   = regexp.MustCompile(`foil-claim\.[A-Za-z0-9_-]*`)
)

// redact takes tokens, states and claims out of a reply, for people to read.
func redact(body []byte, secrets []string) string {
	s := strings.TrimSpace(string(body))
	s = stateMember.ReplaceAllString(s, `$1"`+redacted+`"`)
	for _, x := range secrets {
		if len(x) >= 8 {
			s = strings.ReplaceAll(s, x, redacted)
		}
	}
	s = claimText.ReplaceAllString(s, redacted)
	if len(s) > mostWire {
		s = strings.ToValidUTF8(s[:mostWire], "") + "…"
	}
	return s
}
