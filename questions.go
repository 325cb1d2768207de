package foil

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/foilmcp/foil/internal/canonjson"
	"github.com/foilmcp/foil/internal/claims"
	"github.com/foilmcp/foil/internal/logtext"
)

// asked digests the questions of a result: the raw inputRequests object.
func (g *Guard) asked(questions []byte) ([]claims.Asked, error) {
	if len(questions) == 0 || string(questions) == "null" {
		return nil, nil
	}
	var list []claims.Asked
	var bad error
	err := canonjson.Object(questions, &g.limits, func(key string, value []byte) bool {
		q := claims.Asked{Key: key}
		if q.Kind, bad = questionKind(value); bad != nil {
			return false
		}
		if q.Digest, bad = questionDigest(value, &g.limits); bad != nil {
			return false
		}
		list = append(list, q)
		return true
	})
	if err == nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("foil: inputRequests: %w", err)
	}
	slices.SortFunc(list, func(a, b claims.Asked) int { return strings.Compare(a.Key, b.Key) })
	for i := 1; i < len(list); i++ {
		if list[i-1].Key == list[i].Key {
			return nil, errors.New("foil: inputRequests has a key twice")
		}
	}
	return list, nil
}

func questionKind(request []byte) (claims.Kind, error) {
	var r struct {
		Method string `json:"method"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return 0, errors.New("a request is not an object with a method")
	}
	switch r.Method {
	case "elicitation/create":
		return claims.Elicitation, nil
	case "sampling/createMessage":
		return claims.Sampling, nil
	case "roots/list":
		return claims.Roots, nil
	}
	return 0, fmt.Errorf("a request has the unknown method %q", logtext.Cut(r.Method))
}

func questionDigest(request []byte, lim *canonjson.Limits) ([32]byte, error) {
	s, err := canonjson.Sum(request, lim)
	return s.Python, err
}

// answerKind tells which kind of question an answer fits, by the members that
// the specification gives the three results; 0 if none or several fit.
func answerKind(answer []byte, lim *canonjson.Limits) claims.Kind {
	var kind claims.Kind
	n := 0
	if len(answer) == 0 || answer[0] != '{' {
		return 0
	}
	err := canonjson.Object(answer, lim, func(key string, _ []byte) bool {
		switch key {
		case "action":
			kind = claims.Elicitation
		case "role":
			kind = claims.Sampling
		case "roots":
			kind = claims.Roots
		default:
			return true
		}
		n++
		return true
	})
	if err != nil || n != 1 {
		return 0
	}
	return kind
}

// An answer is one member of inputResponses.
type answer struct {
	key   string
	value []byte
}

// readAnswers reads the raw inputResponses. That they can be read in one way only
// is a property of the request: it is found out before the token is looked at, so
// that the refusal, which a client can tell from others, says nothing of the token.
func (g *Guard) readAnswers(raw []byte) ([]answer, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []answer
	seen := make(map[string]bool)
	good := true // else what one reader takes for a decline, another may take for an accept
	err := canonjson.Object(raw, &g.limits, func(key string, value []byte) bool {
		sums, err := canonjson.Sum(value, &g.limits)
		good = err == nil && !sums.Ambiguous && !seen[key]
		seen[key] = true
		list = append(list, answer{key, value})
		return good
	})
	if err != nil || !good {
		return nil, Reject(ReasonAmbiguous)
	}
	return list, nil
}

// keep drops the answers to what was not asked. A nil filter lets everything
// pass: the questions are not known or not compared.
func (g *Guard) keep(list []answer, filter *claims.Claims) (kept map[string]json.RawMessage, dropped int) {
	if len(list) == 0 {
		return nil, 0
	}
	kept = make(map[string]json.RawMessage, len(list))
	for _, a := range list {
		if filter != nil {
			q, ok := filter.Find(a.key)
			if !ok || answerKind(a.value, &g.limits) != q.Kind {
				dropped++
				continue
			}
		}
		kept[a.key] = slices.Clone(a.value)
	}
	return kept, dropped
}
