package faultnet_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// jumps makes the times that the database writes jump by up to ten years, back and forth, with each
// transaction, as if its clock did.
const jumps = `
	CREATE FUNCTION public.jump() RETURNS interval LANGUAGE sql AS $$ SELECT (random() * 20 - 10) * interval '1 year' $$;
	CREATE FUNCTION public.jump_transaction() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.time := NEW.time + public.jump(); RETURN NEW; END $$;
	CREATE FUNCTION public.jump_resource() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.created_at := NEW.created_at + public.jump(); RETURN NEW; END $$;
	CREATE TRIGGER zz_jump BEFORE INSERT OR UPDATE ON mesh_internal.transactions FOR EACH ROW EXECUTE FUNCTION public.jump_transaction();
	CREATE TRIGGER zz_jump BEFORE INSERT ON mesh.resources FOR EACH ROW EXECUTE FUNCTION public.jump_resource()`

// Revisions are in the order of their numbers, whatever their times are, even over connections that
// break, and on two servers.
func TestTheClockJumps(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, protocol mcp.Protocol, whole bool) {
		m := newMesh(t, 5)
		_, err := m.conn.Exec(t.Context(), jumps)
		require.NoError(t, err)
		a, b := proxy(t, m.replica()), proxy(t, m.replica())
		a.Break(anywhere(5, 3))
		b.Break(anywhere(6, 3))
		r := read(t, protocol, whole, a.Addr(), b.Addr())
		for range 20 {
			m.commit()
			if m.random.IntN(3) == 0 {
				r.await(m.state())
			}
		}
		r.await(m.state())
		var backward int
		require.NoError(t, m.conn.QueryRow(t.Context(), `SELECT count(*) FROM mesh_internal.transactions one JOIN mesh_internal.transactions two
			ON one.revision + 1 = two.revision WHERE one.time > two.time`).Scan(&backward))
		require.Positive(t, backward, "time has gone back")
	})
}
