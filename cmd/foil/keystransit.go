package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/openbao"
)

// What the commands under foil keys do with transit:MOUNT/KEY. All of a Transit key's
// keys stay in OpenBao, so there is neither a document nor a schedule.

// transitPath returns MOUNT/KEY if the flag names a Transit key.
func (r *ringFlag) transitPath() (path string, ok bool) {
	return strings.CutPrefix(r.spec, transitScheme)
}

// withTransit logs in and calls fn with the key.
func withTransit(ctx context.Context, path string, fn func(context.Context, *openbao.TransitKey) error) error {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	key, done, err := openTransit(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	return fn(ctx, key)
}

// openTransit logs in and returns the key. The caller must call done.
func openTransit(ctx context.Context, path string) (key *openbao.TransitKey, done func(), err error) {
	if _, err := openbao.OpenTransitKey(nil, path); err != nil { // which asks nobody
		return nil, nil, usagef("--ring: %w", err)
	}
	client, err := dialBao(ctx, quietly)
	if err != nil {
		return nil, nil, err
	}
	key, err = openbao.OpenTransitKey(client, path)
	return key, func() { _ = client.Close() }, err
}

// shownTransit is a Transit key, without secrets.
type shownTransit struct {
	Key         string         `json:"key"`
	Type        string         `json:"type"`
	Sealing     int            `json:"sealing"` // the version that seals
	MinOpening  int            `json:"min_opening"`
	MinKept     int            `json:"min_kept"`            // versions before it are destroyed
	AutoRotate  int64          `json:"auto_rotate_seconds"` // 0: OpenBao does not rotate it by itself
	Versions    []shownVersion `json:"versions"`
	Exportable  bool           `json:"exportable"`
	PlainBackup bool           `json:"allow_plaintext_backup"`
	Deletable   bool           `json:"deletion_allowed"`
}

type shownVersion struct {
	Version int    `json:"version"`
	State   string `json:"state"` // sealing or opening
	Created string `json:"created,omitempty"`
}

func describeTransit(key *openbao.TransitKey, s *openbao.KeyStatus) *shownTransit {
	d := &shownTransit{
		Key: key.String(), Type: s.Type, Sealing: s.Latest, MinOpening: max(1, s.MinDecryption), MinKept: max(1, s.MinAvailable),
		AutoRotate: int64(s.AutoRotate / time.Second), Versions: []shownVersion{},
		Exportable: s.Exportable, PlainBackup: s.PlaintextBackup, Deletable: s.DeletionAllowed,
	}
	for _, v := range s.Versions {
		state := "opening"
		if v.Version == s.Latest {
			state = "sealing"
		}
		d.Versions = append(d.Versions, shownVersion{v.Version, state, utcTime(v.Created)})
	}
	return d
}

// problems are what is wrong with the key.
func (d *shownTransit) problems() []string {
	var all []string
	if d.Exportable || d.PlainBackup {
		all = append(all, d.Key+": the key may leave OpenBao, which cannot be taken back: make another one, and move to it")
	}
	if d.Deletable {
		all = append(all, d.Key+": the key may be deleted: bao write "+strings.TrimPrefix(transitConfig(d.Key), "/")+" deletion_allowed=false")
	}
	return all
}

func transitConfig(key string) string {
	mount, name, _ := strings.Cut(strings.TrimPrefix(key, transitScheme), "/")
	return mount + "/keys/" + name + "/config"
}

func (d *shownTransit) print(c *cobra.Command) error {
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s, %s", d.Key, d.Type)
	if d.AutoRotate > 0 {
		fmt.Fprintf(w, ", rotated by OpenBao every %v", time.Duration(d.AutoRotate)*time.Second)
	}
	fmt.Fprint(w, "\n\nVERSION\tSTATE\tCREATED\n")
	if d.MinKept > 1 {
		fmt.Fprintf(w, "1-%d\tdestroyed\t-\n", d.MinKept-1)
	}
	if d.MinOpening > d.MinKept {
		fmt.Fprintf(w, "%d-%d\trevoked\t-\n", d.MinKept, d.MinOpening-1)
	}
	for _, v := range d.Versions {
		fmt.Fprintf(w, "%d\t%s\t%s\n", v.Version, v.State, v.Created)
	}
	return w.Flush()
}

func showTransit(c *cobra.Command, asJSON bool, path string) error {
	return withTransit(c.Context(), path, func(ctx context.Context, key *openbao.TransitKey) error {
		s, err := key.Status(ctx)
		if err != nil {
			return err
		}
		d := describeTransit(key, s)
		if asJSON {
			return printJSON(c.OutOrStdout(), d)
		}
		return d.print(c)
	})
}

// transitChanged is what a change of a Transit key prints as JSON.
type transitChanged struct {
	OK         bool   `json:"ok"`
	Changed    bool   `json:"changed"`
	Key        string `json:"key"`
	Sealing    int    `json:"sealing"`
	MinOpening int    `json:"min_opening"`
	AutoRotate int64  `json:"auto_rotate_seconds"`
}

// changeTransit applies fn to the key and reports what that did.
func changeTransit(c *cobra.Command, asJSON bool, path string, fn func(ctx context.Context, key *openbao.TransitKey) (changed bool, s *openbao.KeyStatus, words string, err error)) error {
	return withTransit(c.Context(), path, func(ctx context.Context, key *openbao.TransitKey) error {
		changed, s, words, err := fn(ctx, key)
		if err != nil {
			return ringError(err)
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), transitChanged{true, changed, key.String(), s.Latest, max(1, s.MinDecryption), int64(s.AutoRotate / time.Second)})
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", key, words)
		return err
	})
}

func newTransit(c *cobra.Command, asJSON bool, path string) error {
	for _, name := range []string{"interop", "storage", "propagation", "skew", "max-ttl", "keep"} {
		if c.Flags().Changed(name) {
			return usagef("--%s describes a ring, and a Transit key has no schedule", name)
		}
	}
	return changeTransit(c, asJSON, path, func(ctx context.Context, key *openbao.TransitKey) (bool, *openbao.KeyStatus, string, error) {
		s, err := key.Create(ctx)
		return true, s, "created, version 1 seals from now on", err
	})
}

func rotateTransit(c *cobra.Command, asJSON bool, path string, every time.Duration) error {
	if every > 0 && every < time.Hour {
		return usagef("--every %v: OpenBao rotates a Transit key by itself once an hour at most", every)
	}
	return changeTransit(c, asJSON, path, func(ctx context.Context, key *openbao.TransitKey) (bool, *openbao.KeyStatus, string, error) {
		if every == 0 {
			s, err := key.Rotate(ctx)
			if err != nil {
				return false, nil, "", err
			}
			return true, s, fmt.Sprintf("rotated, version %d seals from now on, everywhere", s.Latest), nil
		}
		every = every.Truncate(time.Second)
		s, err := key.Status(ctx)
		if err != nil {
			return false, nil, "", err
		}
		if s.AutoRotate == every {
			return false, s, fmt.Sprintf("OpenBao rotates it every %v already", every), nil
		}
		s, err = key.AutoRotate(ctx, every)
		return true, s, fmt.Sprintf("from now on OpenBao rotates it by itself, every %v", every), err
	})
}

func revokeTransit(c *cobra.Command, asJSON bool, path, version string) error {
	v, err := strconv.Atoi(strings.TrimPrefix(version, "v"))
	if err != nil || v < 1 {
		return usagef("%q is no version of a Transit key: name a number, such as 3 for tokens that begin with vault:v3", version)
	}
	return changeTransit(c, asJSON, path, func(ctx context.Context, key *openbao.TransitKey) (bool, *openbao.KeyStatus, string, error) {
		was, err := key.Status(ctx)
		if err != nil {
			return false, nil, "", err
		}
		if v < was.MinDecryption {
			return false, was, fmt.Sprintf("version %d was revoked before", v), nil
		}
		s, err := key.Revoke(ctx, v)
		if err != nil {
			return false, nil, "", err
		}
		words := fmt.Sprintf("revoked version %d and all before it; version %d seals\nWhat they sealed is refused from now on, and those flows begin again.", v, s.Latest)
		return true, s, words, nil
	})
}

// dropTransit destroys what opens nothing any more.
func dropTransit(c *cobra.Command, asJSON bool, path, version string, yes bool) error {
	v, err := strconv.Atoi(strings.TrimPrefix(version, "v"))
	if err != nil || v < 1 {
		return usagef("%q is no version of a Transit key: name a number", version)
	}
	return changeTransit(c, asJSON, path, func(ctx context.Context, key *openbao.TransitKey) (bool, *openbao.KeyStatus, string, error) {
		was, err := key.Status(ctx)
		switch {
		case err != nil:
			return false, nil, "", err
		case v > was.Latest:
			return false, nil, "", refusedf("%w: it has versions 1 to %d", openbao.ErrVersion, was.Latest)
		case v >= was.MinDecryption:
			return false, nil, "", refusedf("version %d still opens: revoke it first, when nothing that it sealed may come back: foil keys revoke %d --ring %s", v, v, key)
		case v < was.MinAvailable:
			return false, was, fmt.Sprintf("version %d was destroyed before", v), nil
		case !yes:
			return false, nil, "", usagef("this destroys versions %d to %d for good: add --yes", max(1, was.MinAvailable), was.MinDecryption-1)
		}
		s, err := key.Trim(ctx)
		if err != nil {
			return false, nil, "", err
		}
		if s.MinAvailable <= v {
			return false, nil, "", errors.New("OpenBao did not destroy it: a standby may have answered; run the same again")
		}
		return true, s, fmt.Sprintf("destroyed versions %d to %d", max(1, was.MinAvailable), s.MinAvailable-1), nil
	})
}
