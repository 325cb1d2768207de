package postgres_test

import (
	"context"
	"errors"
	"log"

	"github.com/foilmcp/foil/replay"
	"github.com/foilmcp/foil/store/postgres"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The tables were made by foil store migrate; the server's own role cannot.
func ExampleOpen() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, "postgres://app@db.example/app?sslmode=verify-full", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	var _ replay.Store = store.Replay()
}

// The payment and the mark that its approval is spent come true together. With a
// Guard a handler does it by opened.Redeem(ctx, postgres.InTx(tx)).
func ExampleInTx() {
	pay := func(ctx context.Context, pool *pgxpool.Pool, redeem func(replay.Tx) error) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := redeem(postgres.InTx(tx)); err != nil {
				return err // rolls back
			}
			tag, err := tx.Exec(ctx, "UPDATE account SET balance = balance - 5 WHERE id = 7 AND balance >= 5")
			if err == nil && tag.RowsAffected() != 1 {
				err = errors.New("not enough on the account")
			}
			return err
		})
	}
	_ = pay
}
