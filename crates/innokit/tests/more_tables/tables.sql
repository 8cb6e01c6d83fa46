-- Tables of every kind, for both servers. shop.n has the numbers from 0 to 19999.
CREATE DATABASE more CHARACTER SET utf8mb4;
USE more;
CREATE TABLE plain (id INT PRIMARY KEY, a INT, b VARCHAR(60), KEY (a), KEY down (b DESC, a)) ENGINE=InnoDB;
INSERT INTO plain SELECT i, i*7919%10007, LEFT(SHA2(i, 256), 1+i%60) FROM shop.n WHERE i < 6000;

-- Keys so long that a page has five: five levels.
CREATE TABLE deep (k VARBINARY(3000) NOT NULL PRIMARY KEY, a INT, KEY (a)) ENGINE=InnoDB;
INSERT INTO deep SELECT REPEAT(UNHEX(SHA2(i, 256)), 93), i FROM shop.n WHERE i < 700;

-- Values that are equal to the collation and are other bytes: in the row's key, in unique and in other keys.
CREATE TABLE cases (name VARCHAR(40) NOT NULL PRIMARY KEY, other VARCHAR(40), fixed CHAR(20), UNIQUE KEY (other), KEY (fixed, other)) ENGINE=InnoDB;
INSERT INTO cases SELECT CONCAT('name ', LEFT(SHA2(i, 256), 24)), CONCAT('émile ', i), CONCAT('c', i%17) FROM shop.n WHERE i < 2000;

-- The shapes of CHAR: by charset and row format, with spaces at the end and none, with NULLs.
CREATE TABLE chars_compact (id INT PRIMARY KEY, l CHAR(12) CHARACTER SET latin1, u CHAR(12) CHARACTER SET utf8mb4, w CHAR(12) CHARACTER SET utf32,
  v VARCHAR(30) CHARACTER SET utf8mb4, b BINARY(6), KEY (l), KEY (u), KEY (w), KEY (u(3), l(4)), KEY (b, v(2)), KEY (w(2), b(3))) ENGINE=InnoDB ROW_FORMAT=COMPACT;
INSERT INTO chars_compact SELECT i, IF(i%11 = 0, NULL, LEFT(SHA2(i, 256), i%13)), IF(i%7 = 0, NULL, REPEAT('ä€😀x', i%4)), CONCAT('w', i%100),
  CONCAT('€ ', i%50, '  '), UNHEX(LEFT(SHA2(i, 256), 2*(i%7))) FROM shop.n WHERE i < 3000;
CREATE TABLE chars_redundant LIKE chars_compact;
ALTER TABLE chars_redundant ROW_FORMAT=REDUNDANT;
INSERT INTO chars_redundant SELECT * FROM chars_compact;

-- Prefixes of long values, in rows and off page, cut by bytes and by characters.
CREATE TABLE long_dynamic (id INT PRIMARY KEY, t LONGTEXT, v VARCHAR(700), KEY (t(20)), KEY (t(250)), KEY (v),
  KEY (v(5), t(7))) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
INSERT INTO long_dynamic SELECT i, REPEAT(CONCAT('ä', i, '€'), i*3%1500), REPEAT(CONCAT('v', i%13), i%230)
  FROM shop.n WHERE i < 1200;
CREATE TABLE long_bytes (id INT PRIMARY KEY, b LONGBLOB, KEY (b(300))) ENGINE=InnoDB;
INSERT INTO long_bytes SELECT i, REPEAT(UNHEX(SHA2(i, 256)), i%600) FROM shop.n WHERE i < 1200;
CREATE TABLE long_utf16 (id INT PRIMARY KEY, n TEXT CHARACTER SET utf16, KEY (n(9))) ENGINE=InnoDB;
INSERT INTO long_utf16 SELECT i, IF(i%9 = 0, NULL, CONCAT('😀', REPEAT(i, i%400))) FROM shop.n WHERE i < 1200;
CREATE TABLE long_compact (id INT PRIMARY KEY, t LONGTEXT, b LONGBLOB, v VARCHAR(700) CHARACTER SET latin1, KEY (t(20)), KEY (t(150)), KEY (b(700)), KEY (v)) ENGINE=InnoDB ROW_FORMAT=COMPACT;
INSERT INTO long_compact SELECT l.id, l.t, b.b, LEFT(l.v, 700) FROM long_dynamic l JOIN long_bytes b USING (id);
CREATE TABLE long_redundant LIKE long_compact;
ALTER TABLE long_redundant ROW_FORMAT=REDUNDANT;
INSERT INTO long_redundant SELECT * FROM long_compact;
CREATE TABLE long_packed (id INT PRIMARY KEY, t LONGTEXT, b LONGBLOB, KEY (t(20)), KEY (b(300))) ENGINE=InnoDB ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8;
INSERT INTO long_packed SELECT l.id, l.t, b.b FROM long_dynamic l JOIN long_bytes b USING (id);

-- Keys of rows: none, promoted, of several parts, of prefixes, descending.
CREATE TABLE no_key (a INT, b VARCHAR(20), KEY (a), KEY (b)) ENGINE=InnoDB;
INSERT INTO no_key SELECT i%50, LEFT(SHA2(i, 256), i%20) FROM shop.n WHERE i < 3000;
CREATE TABLE promoted (a INT NOT NULL, b VARCHAR(20) NOT NULL, c INT, UNIQUE KEY (b, a), KEY (c), KEY (a)) ENGINE=InnoDB;
INSERT INTO promoted SELECT i, LEFT(SHA2(i, 256), i%20), i%9 FROM shop.n WHERE i < 3000;
CREATE TABLE by_prefix (a VARCHAR(300) NOT NULL, b VARBINARY(40) NOT NULL, c INT, PRIMARY KEY (a(30), b(10) DESC), KEY (c DESC), KEY (a), KEY (b(10), a(3))) ENGINE=InnoDB;
INSERT INTO by_prefix SELECT CONCAT('ü', SHA2(i, 256), SHA2(i+1, 512)), UNHEX(LEFT(SHA2(i, 256), 20+i%40)), i%70 FROM shop.n WHERE i < 3000;

-- Numbers and times.
CREATE TABLE numbers (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, f FLOAT, d DOUBLE, e DECIMAL(20,6), m MEDIUMINT, dt DATETIME(6), ts TIMESTAMP NULL, ti TIME(3),
  y YEAR, en ENUM('red','green','blue'), se SET('a','b','c'), bt BIT(9), KEY (f), KEY (d), KEY (e, m), KEY (dt), KEY (ts), KEY (ti), KEY (y), KEY (en, se), KEY (bt)) ENGINE=InnoDB;
INSERT INTO numbers (f, d, e, m, dt, ts, ti, y, en, se, bt) SELECT i/3-500, i/7, i*1000/7, i*11-9000, TIMESTAMP '1999-12-31 23:59:59.123456' + INTERVAL i HOUR,
  FROM_UNIXTIME(1000000000+i*1000), SEC_TO_TIME(i*13), 1950+i%150, 1+i%3, i%8, i%512 FROM shop.n WHERE i < 2500;

-- Altered without writing rows anew; indexes made before and after, on columns that old rows do not have.
CREATE TABLE altered (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY (a)) ENGINE=InnoDB;
INSERT INTO altered SELECT i, i%10, LEFT(SHA2(i, 256), 20) FROM shop.n WHERE i < 2000;
ALTER TABLE altered ADD COLUMN c CHAR(10) NOT NULL DEFAULT 'was not', ALGORITHM=INSTANT;
ALTER TABLE altered ADD COLUMN d INT, ALGORITHM=INSTANT;
INSERT INTO altered SELECT i, i%10, 'b', LEFT(SHA2(i, 256), i%10), i FROM shop.n WHERE i BETWEEN 2000 AND 2499;
ALTER TABLE altered ADD KEY (c), ADD KEY (d, c(3));
CREATE TABLE altered_more LIKE altered;
INSERT INTO altered_more SELECT * FROM altered;
ALTER TABLE altered_more DROP COLUMN b, ALGORITHM=INSTANT;
ALTER TABLE altered_more ADD COLUMN first VARCHAR(30) DEFAULT 'first of all' FIRST, ALGORITHM=INSTANT;
INSERT INTO altered_more (id, a, c) SELECT i, i%10, 'late' FROM shop.n WHERE i BETWEEN 3000 AND 3499;
ALTER TABLE altered_more ADD KEY (first(7), a);
CREATE TABLE altered_redundant (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=InnoDB ROW_FORMAT=REDUNDANT;
INSERT INTO altered_redundant SELECT i, i%10 FROM shop.n WHERE i < 2000;
ALTER TABLE altered_redundant ADD COLUMN c CHAR(10) DEFAULT 'was not', ALGORITHM=INSTANT;
INSERT INTO altered_redundant SELECT i, i%10, LEFT(SHA2(i, 256), i%10) FROM shop.n WHERE i BETWEEN 2000 AND 2499;
ALTER TABLE altered_redundant ADD KEY (c);

-- Computed columns, partitions, full text, places.
CREATE TABLE computed (id INT PRIMARY KEY, a INT, twice INT AS (a*2) VIRTUAL, kept VARCHAR(30) AS (CONCAT('k', a)) STORED, KEY (twice, a), KEY (kept), KEY (a, twice)) ENGINE=InnoDB;
INSERT INTO computed (id, a) SELECT i, i%100 FROM shop.n WHERE i < 2000;
CREATE TABLE parts (id INT NOT NULL, a INT, b VARCHAR(60), PRIMARY KEY (id), KEY (a), KEY (b(7))) ENGINE=InnoDB
  PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO parts SELECT i, i%50, LEFT(SHA2(i, 256), 32) FROM shop.n WHERE i < 3000;
ALTER TABLE parts ADD COLUMN c INT DEFAULT 7, ALGORITHM=INSTANT;
ALTER TABLE parts ADD KEY (c);
CREATE TABLE texts (id INT PRIMARY KEY, title VARCHAR(200), body TEXT, FULLTEXT KEY (title), FULLTEXT KEY (title, body), KEY (title(10))) ENGINE=InnoDB;
INSERT INTO texts SELECT i, CONCAT('title ', LEFT(SHA2(i, 256), 32)), CONCAT('words ', SHA2(i, 256)) FROM shop.n WHERE i < 500;
CREATE TABLE places (id INT PRIMARY KEY, name VARCHAR(20), place POINT NOT NULL, SPATIAL KEY (place), KEY (name)) ENGINE=InnoDB;
INSERT INTO places SELECT i, CONCAT('n', i%40), ST_GeomFromText(CONCAT('POINT(', i%317, ' ', i%211, ')')) FROM shop.n WHERE i < 3000;
