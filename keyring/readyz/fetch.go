package readyz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxReport bounds what Fetch reads.
const maxReport = 1 << 20

// Fetch asks a process for its report. address is a URL; without a path it is that of
// /readyz. A process that is not ready is no error. client may be nil; redirects are
// not followed, so that the report is of the process that was asked.
func Fetch(ctx context.Context, client *http.Client, address string) (*Report, error) {
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("readyz: %w", err)
	}
	if client == nil {
		client = http.DefaultClient
	}
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := c.Do(req)
	if err != nil {
		// The outer error repeats the URL, which may hold a password.
		if inner := new(url.Error); errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, fmt.Errorf("readyz: no answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		return nil, fmt.Errorf("readyz: the answer is %s and no report: look at the URL", resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReport+1))
	if err != nil {
		return nil, fmt.Errorf("readyz: the answer broke off: %w", err)
	}
	var doc struct {
		Ready *bool `json:"ready"`
		Report
	}
	if len(body) > maxReport || json.Unmarshal(body, &doc) != nil || doc.Ready == nil {
		return nil, errors.New("readyz: the answer is no report of this package: mount readyz.Handler there")
	}
	rep := doc.Report
	rep.Ready = *doc.Ready
	if rep.Ready != (resp.StatusCode == http.StatusOK) {
		return nil, fmt.Errorf("readyz: the report says ready=%v, but the status is %s: something between rewrites it", rep.Ready, resp.Status)
	}
	for i := range rep.Rings { // from over the network, and on its way to a terminal
		r := &rep.Rings[i]
		r.Name, r.Sealing, r.Error = oneLine(r.Name), oneLine(r.Sealing), oneLine(r.Error)
		for id, n := range r.Seals {
			if clean := oneLine(id); clean != id {
				delete(r.Seals, id)
				r.Seals[clean] = n
			}
		}
	}
	for i := range rep.Checks {
		rep.Checks[i].Name = oneLine(rep.Checks[i].Name)
	}
	return &rep, nil
}

// Address returns the URL that Fetch asks, without credentials, or why it asks none.
func Address(address string) (string, error) {
	u, err := parse(address)
	if err != nil {
		return "", err
	}
	u.User = nil
	return u.String(), nil
}

func parse(address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("readyz: a replica is named by a URL like http://10.0.0.7:8080, or with the path of its handler")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/readyz"
	}
	return u, nil
}
