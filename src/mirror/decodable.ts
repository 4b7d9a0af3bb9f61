/** Records for views whose columns other programs can decode: half of a surrogate pair has no UTF-8, and U+0000 ends a text. */

/** The next escape that may be half of a surrogate pair; those of Hangul begin so too. */
const NEXT = String.raw`instr(t,'\ud')`;

const PAIR = String.raw`substr(t,${NEXT},12) GLOB '\ud[89abAB]??\ud[c-fC-F]??'`;

const HALF = String.raw`GLOB '*\u[dD][89a-fA-F]*'`;

/**
 * JSON with U+FFFD in place of half a surrogate pair: SQLite makes bytes of it that are not UTF-8, and programs then fail for
 * the entire query. The same for U+0000, behind which `LIKE` and programs see nothing. In `t` no backslash is escaped.
 */
export function withoutHalves(json: string): string {
  return String.raw`iif(${json} ${HALF} OR instr(${json},'\u0000'),(WITH RECURSIVE h(d,t) AS (SELECT '',replace(replace(replace(${json},'\\',char(1)),'\uD','\ud'),'\u0000','\ufffd') UNION ALL
    SELECT d||substr(t,1,${NEXT}-1)||CASE WHEN ${PAIR} THEN substr(t,${NEXT},12) WHEN substr(t,${NEXT}+3,1)<'8' THEN substr(t,${NEXT},6) ELSE '\ufffd' END,
      substr(t,${NEXT}+iif(${PAIR},12,6)) FROM h WHERE ${NEXT}) SELECT replace(d||t,char(1),'\\') FROM h WHERE NOT ${NEXT}),${json})`;
}

/** What is read as text from the body of record `r`. SQLite repeats the expression of a column wherever that is named, but not that of a subquery without FROM. */
export function fromBody(read: (body: string) => string): string {
  return `CAST((SELECT ${read('x')} FROM (SELECT r.body AS x)) AS TEXT)`;
}

/**
 * A view that the others read: SQLite parses all views for each connection, so the text is in one of them. It takes the view apart, so
 * that indexes are used as for the table.
 */
export const RECORDS = 'decodable_records';

export const RECORDS_QUERY = `SELECT record, collection, remote_id, run, change, hash, last_name, "body" AS received, ${withoutHalves('"body"')} AS "body" FROM records r`;
