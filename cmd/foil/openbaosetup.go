package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/foilmcp/foil/openbao"
)

func newOpenBaoSetupCmd() *cobra.Command {
	var layout layoutFlags
	var dry, asJSON bool
	var approles []string
	c := &cobra.Command{
		Use:   "setup",
		Short: "Make engines, Transit key, policies and AppRoles",
		Long: `Make what foil needs in OpenBao, and nothing else: a KV engine (version 2) for the key
ring, one for the IDs of spent tokens, a Transit engine with its key, a policy and an
AppRole for each role. None of the AppRoles has the default policy.

What is there and as it should be stays; running it again changes nothing. What is
there and of another kind is an error, and stays. No key ring is made ('foil keys new'
does) and no secret ID: the command for that is printed.

A server that does several jobs gets an AppRole of its own with --approle. One that
uses Transit, so that no key is in its memory, cannot also read the ring; one that
spends tokens cannot also forget them.`,
		Example: `  foil openbao setup --dry-run
  foil openbao setup
  foil openbao setup --approle janitor=ring-reader,wrapper,redeemer,spender`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			more, err := parseAppRoles(approles)
			if err != nil {
				return err
			}
			client, err := connectBao(c)
			if err != nil {
				return err
			}
			defer func() { _ = client.Close() }()
			steps, err := openbao.Setup(c.Context(), client, &layout.Layout, &openbao.SetupOptions{DryRun: dry, AppRoles: more})
			if asJSON {
				if steps == nil {
					steps = []openbao.Step{}
				}
				if printErr := printJSON(c.OutOrStdout(), setupDone{err == nil, dry, steps}); err == nil {
					err = printErr
				}
				return err
			}
			for _, st := range steps {
				fmt.Fprintf(c.OutOrStdout(), "%-12s %s\n", st.Did, st.What)
			}
			if err != nil {
				return err
			}
			return sayNext(c, &layout, dry, more)
		},
	}
	layout.add(c)
	f := c.Flags()
	f.StringVar(&layout.AppRole, "auth-mount", openbao.DefaultAuthMount, "mount of the AppRole method")
	f.StringArrayVar(&approles, "approle", nil, "one more AppRole, NAME=ROLE,ROLE… (repeatable)")
	f.BoolVar(&dry, "dry-run", false, "change nothing and print what would be done")
	addJSON(c, &asJSON)
	return c
}

type setupDone struct {
	OK     bool           `json:"ok"`
	DryRun bool           `json:"dry_run"`
	Steps  []openbao.Step `json:"steps"`
}

// parseAppRoles reads NAME=ROLE,ROLE….
func parseAppRoles(list []string) (map[string][]openbao.Role, error) {
	out := make(map[string][]openbao.Role)
	for _, s := range list {
		name, roles, ok := strings.Cut(s, "=")
		if !ok || name == "" || roles == "" {
			return nil, usagef("--approle wants NAME=ROLE,ROLE…; the roles are %s", strings.Join(baoRoles(), ", "))
		}
		if out[name] != nil {
			return nil, usagef("--approle %s is given twice", name)
		}
		for _, r := range strings.Split(roles, ",") {
			if !slices.Contains(baoRoles(), r) {
				return nil, usagef("--approle %s: there is no role %q; the roles are %s", name, r, strings.Join(baoRoles(), ", "))
			}
			out[name] = append(out[name], openbao.Role(r))
		}
	}
	return out, nil
}

// sayNext tells how to go on from here.
func sayNext(c *cobra.Command, layout *layoutFlags, dry bool, more map[string][]openbao.Role) error {
	w := c.OutOrStdout()
	if dry {
		_, err := fmt.Fprintln(w, "nothing was changed: run it without --dry-run")
		return err
	}
	name := string(openbao.RingReader)
	if len(more) > 0 {
		name = slices.Sorted(maps.Keys(more))[0]
	}
	role := fmt.Sprintf("auth/%s/role/%s-%s", layout.AppRole, layout.Prefix, name)
	_, err := fmt.Fprintf(w, `next:
  foil keys new --ring openbao:%s
  bao read -field=role_id %s/role-id
  bao write -f -field=secret_id %s/secret-id
`, layout.Ring, role, role)
	return err
}
