package foil_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/foilmcp/foil"
)

// The bytes are frozen: clients and other SDKs match on them.
func TestWire(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{foil.Reject(foil.ReasonTampered), `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`},
		{fmt.Errorf("wrapped: %w", foil.Reject(foil.ReasonExpired)), `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`},
		{foil.ErrInvalid, `{"code":-32602,"message":"Invalid or expired requestState","data":{"reason":"invalid_request_state"}}`},
		{foil.Reject(foil.ReasonAmbiguous), `{"code":-32602,"message":"Invalid params","data":{"reason":"ambiguous_arguments"}}`},
		{errors.New("anything"), `{"code":-32603,"message":"Internal error","data":{"reason":"request_state_unavailable"}}`},
		{foil.ErrUnavailable, `{"code":-32603,"message":"Internal error","data":{"reason":"request_state_unavailable"}}`},
	}
	for _, tt := range tests {
		got, err := json.Marshal(foil.Wire(tt.err))
		if err != nil || string(got) != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
	if foil.Wire(nil) != nil {
		t.Error("Wire(nil) is an error")
	}
	w := foil.Wire(foil.ErrInvalid)
	w.Data[2] = 'X'
	if string(foil.Wire(foil.ErrInvalid).Data) != `{"reason":"invalid_request_state"}` {
		t.Error("a caller can change the frozen data")
	}
}

// Nothing that a client sends, and nothing that is sealed, reaches a log or a
// printed value.
func TestNothingLeaks(t *testing.T) {
	b := newBench(t, nil)
	secrets := []string{"STATE-CANARY", "ARG-CANARY", "ANSWER-CANARY", "SUBJECT-CANARY", "QUESTION-CANARY"}
	req := foil.Request{
		Method: foil.MethodToolsCall, Target: "purge", Arguments: []byte(`{"a":"ARG-CANARY"}`),
		Principal: foil.OAuth("app", "https://i", "SUBJECT-CANARY"),
		Answers:   []byte(`{"confirm":{"action":"accept","content":"ANSWER-CANARY"},"x":{"action":"accept"}}`),
	}
	out := foil.Outgoing{State: "STATE-CANARY", Questions: []byte(`{"confirm":{"method":"elicitation/create","params":{"message":"QUESTION-CANARY"}}}`)}
	token := b.seal(t, req, out)
	secrets = append(secrets, token, token[20:60])

	bad := req
	bad.Arguments = []byte(`{"a":"ARG-CANARY","A":"ARG-CANARY"}`)
	other := req
	other.Principal = foil.OAuth("app", "https://i", "SUBJECT-CANARY-2")
	var errs []error
	for _, r := range []foil.Request{bad, other} {
		_, err := b.Open(ctx, r, token)
		errs = append(errs, err)
		errs = append(errs, b.Check(ctx, r))
	}
	for _, tok := range []string{token + "x", token[:30] + flip(token[30:31]) + token[31:], strings.Repeat("STATE-CANARY", 1<<13)} {
		_, err := b.Open(ctx, req, tok)
		errs = append(errs, err)
	}
	_, err := b.Seal(ctx, req, foil.Outgoing{State: "STATE-CANARY\xff"})
	errs = append(errs, err)
	opened, err := b.Open(ctx, req, token)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Open(ctx, req, token)
	errs = append(errs, err)

	var printed strings.Builder
	log := slog.New(slog.NewJSONHandler(&printed, nil))
	for _, v := range []any{req, &req, out, &out, opened, *opened, req.Principal, b.Guard, opened.Claims(), b.codec} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&printed, verb+"\n", v)
		}
		log.Info("x", "v", v)
	}
	for _, v := range []any{req, out, req.Principal, opened, opened.Claims()} {
		j, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		printed.Write(j)
	}
	for _, err := range errs {
		fmt.Fprintf(&printed, "%v %+v\n", err, err)
	}
	for _, s := range secrets {
		for where, text := range map[string]string{"printed": printed.String(), "log": b.log.String()} {
			if strings.Contains(text, s) {
				t.Errorf("%q is in what was %s", s, where)
			}
			b := []byte(s)
			for _, spelt := range []string{fmt.Sprintf("%x", b), strings.Trim(fmt.Sprint(b), "[]"), strings.Trim(fmt.Sprintf("%#v", b), "[]byte{}")} {
				if strings.Contains(text, spelt) {
					t.Errorf("%q is in what was %s, as bytes: %.60s", s, where, spelt)
				}
			}
		}
	}
	for _, want := range []string{"reason=tampered", "reason=principal", "reason=replayed", "reason=too_large", "reason=ambiguous_arguments", "target=purge", "kid=", "flow=" + opened.Flow(), "token=", "dropped=1"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, b.log.String())
		}
	}
}

func flip(char string) string {
	if char == "A" {
		return "B"
	}
	return "A"
}

func TestLogLinesStayShort(t *testing.T) {
	b := newBench(t, nil)
	req := purge()
	req.Target = strings.Repeat("é", 1<<16)
	req.Method = strings.Repeat("m", 1<<16)
	if _, err := b.Open(ctx, req, "v1.x"); err == nil {
		t.Fatal("opened")
	}
	if b.log.Len() > 2000 {
		t.Errorf("one refusal logged %d bytes", b.log.Len())
	}
}

func TestNamesOfBindings(t *testing.T) {
	all := foil.BindPrincipal | foil.BindExpiry | foil.BindRequest | foil.BindAudience | foil.BindQuestions
	if got, err := foil.ParseBindings(all.String()); err != nil || got != all {
		t.Errorf("%q: %v, %v", all, got, err)
	}
	if got, err := foil.ParseBindings(""); err != nil || got != 0 {
		t.Errorf("empty: %v, %v", got, err)
	}
	for _, bad := range []string{"integrity", "principal,", ",", "Principal"} {
		if _, err := foil.ParseBindings(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	for _, o := range []foil.Once{foil.Redeem, foil.Off} {
		if got, err := foil.ParseOnce(o.String()); err != nil || got != o {
			t.Errorf("%v: %v, %v", o, got, err)
		}
	}
	if _, err := foil.ParseOnce("default"); err == nil {
		t.Error("default was taken")
	}
}
