package openbao_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/foilmcp/foil/internal/baotest"
	"github.com/foilmcp/foil/openbao"
)

func TestCreateTransitKey(t *testing.T) {
	baotest.Each(t, func(t *testing.T, srv *baotest.Server) {
		c := client(t, srv)
		mount, _, _ := strings.Cut(srv.Transit(t), "/")
		key := must(openbao.OpenTransitKey(c, mount+"/mcp"))(t)
		s := must(key.Create(t.Context()))(t)
		if s.Type != "aes256-gcm96" || s.Latest != 1 || s.Exportable || s.PlaintextBackup || s.DeletionAllowed {
			t.Errorf("%+v", s)
		}
		must(key.Rotate(t.Context()))(t)
		if s, err := key.Create(t.Context()); !errors.Is(err, openbao.ErrKeyExists) {
			t.Errorf("Create over a key: %v, %v", s, err)
		}
		if s := must(key.Status(t.Context()))(t); s.Latest != 2 {
			t.Errorf("Create over a key left version %d, want 2", s.Latest)
		}
		codec := must(openbao.NewTransit(t.Context(), c, mount+"/mcp", nil))(t)
		must(codec.Open(t.Context(), must(codec.Seal(t.Context(), []byte("x"), later))(t)))(t)
		none := must(openbao.OpenTransitKey(c, srv.Name("none")+"/mcp"))(t)
		if s, err := none.Create(t.Context()); err == nil || errors.Is(err, openbao.ErrKeyExists) {
			t.Errorf("Create in no engine: %v, %v", s, err)
		}
	})
}
