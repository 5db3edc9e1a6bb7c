-- A script that has changed something waits until proxies run it.

-- first_refusal says in one sentence what a proxy refuses, in Envoy's words, and what that was made
-- from as far as the acting role may know; NULL if it refuses nothing that is known.
CREATE OR REPLACE FUNCTION mesh_internal.first_refusal(namespace text, proxy text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat(format('refuses %s: %s', f.envoy_resource, left(f.reason, 300)),
    CASE WHEN f.source_kind IS NOT NULL THEN format('; it was made from %s %s', f.source_kind, concat_ws('/', nullif(f.source_namespace, ''), f.source_name) || coalesce(', ' || f.source_path, '')) END,
    CASE WHEN f.revision IS NOT NULL THEN format(', which %s changed in revision %s', f.author, f.revision) END)
  FROM mesh_internal.refusals_of(namespace, proxy) f ORDER BY f.revision DESC NULLS LAST, f.since, f.envoy_resource LIMIT 1
$$;

-- why_behind says, of up to five connected proxies that do not run a revision yet, why not. Texts of
-- proxies are anybody's.
CREATE OR REPLACE FUNCTION mesh_internal.why_behind(revision bigint) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    WITH behind AS (
      SELECT p.*, row_number() OVER (ORDER BY array_position('{refused,silent,sending,synced}', p.state), p.namespace, p.proxy) AS n
      FROM mesh_internal.known_proxies p WHERE p.state <> 'away' AND coalesce(p.runs, 0) < why_behind.revision),
    named AS (
      SELECT b.n, format('%s/%s runs %s%s', left(b.namespace, 63), left(b.proxy, 253), coalesce(b.runs::text, 'nothing yet'), CASE b.state
        WHEN 'refused' THEN ' and ' || coalesce(mesh_internal.first_refusal(b.namespace, b.proxy), format('refuses %s of its resources', b.refused))
        WHEN 'silent' THEN format(' and has not answered since %s', b.changed)
        WHEN 'sending' THEN format(' and is being sent %s', coalesce(b.sent::text, 'its first'))
        ELSE ' and is in step with its discovery, which is behind' END) AS why
      FROM behind b WHERE b.n <= 5)
    SELECT string_agg(regexp_replace(n.why, '[[:cntrl:]]+', ' ', 'g'), '; ' ORDER BY n.n)
      || CASE WHEN (SELECT count(*) FROM behind) > 5 THEN format('; and %s more', (SELECT count(*) FROM behind) - 5) ELSE '' END
    FROM named n);
END $$;

-- refuse_waiting refuses to wait where that would be in vain: the transaction sees nothing new, or
-- has changes that nobody can run before it ends.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_waiting() RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE invalid_transaction_state USING MESSAGE = format('a transaction that is %s sees nothing new, and would wait in vain', upper(current_setting('transaction_isolation'))),
      HINT = 'call mesh.wait outside of a transaction, or in one that is READ COMMITTED';
  ELSIF EXISTS (SELECT FROM mesh_internal.running_transaction) THEN
    RAISE invalid_transaction_state USING MESSAGE = 'this transaction has changes, which nobody can run before it is committed', HINT = 'COMMIT, then call mesh.wait';
  END IF;
END $$;

-- refuse_to_wait refuses what nobody can have meant.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_to_wait(revision bigint, share numeric, timeout interval) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (share BETWEEN 0 AND 1) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s is not a share of the proxies', coalesce(share::text, 'NULL')), HINT = 'write a number from 0 to 1';
  ELSIF (timeout BETWEEN '0' AND interval '1 hour') IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s is not a time to wait', coalesce(timeout::text, 'NULL')), HINT = 'write an interval of one hour at most';
  ELSIF revision > mesh.newest_revision() THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('there is no revision %s yet', revision), HINT = format('the newest revision is %s', mesh.newest_revision());
  END IF;
END $$;

CREATE OR REPLACE FUNCTION mesh.wait(revision bigint DEFAULT NULL, share numeric DEFAULT 1, timeout interval DEFAULT '30s') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  begun  timestamptz := clock_timestamp();
  wanted bigint := coalesce(revision, mesh.newest_revision());
  ending timestamptz;
  asked  timestamptz;
  known  bigint;
  here   bigint;
  done   bigint;
BEGIN
  PERFORM mesh_internal.refuse_waiting();
  PERFORM mesh_internal.refuse_to_wait(wanted, share, timeout);
  ending := clock_timestamp() + timeout;
  LOOP
    asked := clock_timestamp();
    SELECT count(*), count(*) FILTER (WHERE p.state <> 'away'), count(*) FILTER (WHERE p.state <> 'away' AND coalesce(p.runs, 0) >= wanted)
      INTO known, here, done FROM mesh_internal.known_proxies p;
    -- If all are away they may well come back at another server, and are waited for.
    IF done >= share * here AND (here > 0 OR known = 0 OR share = 0) THEN
      RETURN done;
    ELSIF clock_timestamp() >= ending THEN
      RAISE EXCEPTION USING ERRCODE = 'MS009',
        MESSAGE = concat_ws(': ', format('revision %s is run by %s of %s connected proxies after %s', wanted, done, here, timeout), mesh_internal.why_behind(wanted)),
        HINT = CASE WHEN here = 0 THEN format('no proxy is connected, and mesh.proxies tells of %s that are away', known) ELSE 'mesh.proxies has all of them' END;
    END IF;
    -- Most changes are everywhere soon, and then each millisecond counts; who has waited for a second
    -- does not mind 50 more. Where there are so many proxies that asking takes long, it asks for half
    -- of the time at most.
    PERFORM pg_sleep_for(least(ending - clock_timestamp(), greatest(clock_timestamp() - asked, interval '10 ms', least((clock_timestamp() - begun) / 20, interval '50 ms'))));
  END LOOP;
END $$;

COMMENT ON FUNCTION mesh.wait IS 'Waits until a share of the connected proxies that one may read, from 0 to 1, runs a revision or a later one; the newest revision if it is NULL. Returns how many do. Raises MS009 if the time is over, and names up to five proxies that do not run it, and why. Call it after the change is committed, in a transaction that is READ COMMITTED.';
