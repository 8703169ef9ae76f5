-- Roles of Pyrometer on a Postgres server, for tables in the schema `public`.
--
-- Run it as a superuser in Pyrometer's database after `pyrometer db upgrade` has made the tables, and again after
-- each later upgrade: `psql --dbname=NAME --file=deploy/roles.sql`. Run again, it changes nothing else. It sets no
-- password: `psql --dbname=NAME --command='\password pyrometer_reader'` does. Other names: replace them here.
--
--   pyrometer_owner    makes and alters the tables: `pyrometer db upgrade`, `pyrometer db forget`
--   pyrometer_writer   stores runs: `pyrometer run`, `pyrometer scheduler`
--   pyrometer_reader   reads everything, and writes only the triage of findings: `pyrometer dashboard`

DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['pyrometer_owner', 'pyrometer_writer', 'pyrometer_reader'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = one) THEN
            EXECUTE format('CREATE ROLE %I LOGIN', one);
        END IF;
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), one);
    END LOOP;
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
        EXECUTE format('ALTER TABLE public.%I OWNER TO pyrometer_owner', one);
    END LOOP;
END
$$;

GRANT USAGE ON SCHEMA public TO pyrometer_owner, pyrometer_writer, pyrometer_reader;
-- Before Postgres 15 every role could create tables here.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO pyrometer_owner;

-- Tables that the owner creates later.
ALTER DEFAULT PRIVILEGES FOR ROLE pyrometer_owner IN SCHEMA public
    GRANT SELECT ON TABLES TO pyrometer_writer, pyrometer_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE pyrometer_owner IN SCHEMA public
    GRANT INSERT, UPDATE ON TABLES TO pyrometer_writer;
ALTER DEFAULT PRIVILEGES FOR ROLE pyrometer_owner IN SCHEMA public
    GRANT SELECT ON SEQUENCES TO pyrometer_writer, pyrometer_reader;
ALTER DEFAULT PRIVILEGES FOR ROLE pyrometer_owner IN SCHEMA public
    GRANT USAGE ON SEQUENCES TO pyrometer_writer;

-- Tables that are there.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO pyrometer_writer, pyrometer_reader;
GRANT INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO pyrometer_writer;
GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO pyrometer_writer, pyrometer_reader;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO pyrometer_writer;

DO $$
BEGIN
    IF to_regclass('public.pyrometer_schema') IS NULL THEN
        RAISE NOTICE 'There are no tables yet: run this file again after `pyrometer db upgrade`.';
        RETURN;
    END IF;
    -- Only the owner decides which schema there is.
    REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON public.pyrometer_schema FROM pyrometer_writer;
    -- Raw rows and old tasks expire; a scheduler that stops removes its row.
    GRANT DELETE ON public.telemetry, public.samples TO pyrometer_writer;
    GRANT DELETE ON public.attempt, public.task, public.scheduled_run, public.scheduler TO pyrometer_writer;
    -- The dashboard adds to the triage of a finding.
    GRANT INSERT ON public.triage TO pyrometer_reader;
    GRANT USAGE ON SEQUENCE public.triage_id_seq TO pyrometer_reader;
    GRANT UPDATE (triage, muted_until, link) ON public.finding TO pyrometer_reader;
END
$$;
