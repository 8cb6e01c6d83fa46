-- What only MySQL has.
USE more;
CREATE TABLE tags (id INT PRIMARY KEY, doc JSON, KEY numbers ((CAST(doc->'$.n' AS UNSIGNED ARRAY)))) ENGINE=InnoDB;
INSERT INTO tags SELECT i, JSON_OBJECT('n', JSON_ARRAY(i, i+1, i+2)) FROM shop.n WHERE i < 500;
CREATE TABLE functional (id INT PRIMARY KEY, a VARCHAR(30), KEY upper_a ((UPPER(a))), KEY (a)) ENGINE=InnoDB;
INSERT INTO functional SELECT i, LEFT(SHA2(i, 256), 20) FROM shop.n WHERE i < 1000;
UPDATE functional SET a = REVERSE(a) WHERE id%3 = 0;

-- Large values in compressed tables, each compressed in pieces: of bytes that nothing compresses, of many that compress well, changed in part.
SET SESSION group_concat_max_len = 4000000;
CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB;
INSERT INTO large SELECT t.i, (SELECT GROUP_CONCAT(UNHEX(SHA2(CONCAT(t.i, ' ', n.i), 512)) SEPARATOR '') FROM shop.n WHERE n.i < 2100 + 900*t.i) FROM shop.n t WHERE t.i < 6;
INSERT INTO large SELECT 10, REPEAT('compresses well, ', 60000);
CREATE TABLE pieces_1k (id INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=1;
CREATE TABLE pieces_2k LIKE pieces_1k;
ALTER TABLE pieces_2k KEY_BLOCK_SIZE=2;
CREATE TABLE pieces_4k (id INT PRIMARY KEY, b LONGBLOB, KEY (b(200))) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4;
CREATE TABLE pieces_8k LIKE pieces_4k;
ALTER TABLE pieces_8k KEY_BLOCK_SIZE=8;
CREATE TABLE pieces_16k LIKE pieces_4k;
ALTER TABLE pieces_16k KEY_BLOCK_SIZE=16;
INSERT INTO pieces_1k SELECT * FROM large;
INSERT INTO pieces_2k SELECT * FROM large;
INSERT INTO pieces_4k SELECT * FROM large;
INSERT INTO pieces_8k SELECT * FROM large;
INSERT INTO pieces_16k SELECT * FROM large;
UPDATE pieces_8k SET b = REVERSE(b) WHERE id = 1;
CREATE TABLE pieces_json (id INT PRIMARY KEY, doc JSON) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8;
INSERT INTO pieces_json SELECT id, JSON_OBJECT('a', 'xxxxxxxxxx', 'big', HEX(b), 'z', 'xxxxxxxxxx') FROM large WHERE id < 6;
UPDATE pieces_json SET doc = JSON_SET(doc, '$.a', 'yyyyyyyyyy', '$.z', 'zz') WHERE id < 4;
UPDATE pieces_json SET doc = JSON_REPLACE(doc, '$.a', 'z') WHERE id < 2;
