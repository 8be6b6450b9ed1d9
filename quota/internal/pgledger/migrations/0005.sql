-- What tools need to tell tenants from names that a limit counts nobody under, and limits whose
-- decisions follow plans from those that don't.
ALTER TABLE {schema}.declared ADD COLUMN keys text NOT NULL DEFAULT '', ADD COLUMN per_tenant boolean NOT NULL DEFAULT false;
