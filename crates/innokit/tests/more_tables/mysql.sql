-- What only MySQL has.
USE more;
CREATE TABLE tags (id INT PRIMARY KEY, doc JSON, KEY numbers ((CAST(doc->'$.n' AS UNSIGNED ARRAY)))) ENGINE=InnoDB;
INSERT INTO tags SELECT i, JSON_OBJECT('n', JSON_ARRAY(i, i+1, i+2)) FROM shop.n WHERE i < 500;
CREATE TABLE functional (id INT PRIMARY KEY, a VARCHAR(30), KEY upper_a ((UPPER(a))), KEY (a)) ENGINE=InnoDB;
INSERT INTO functional SELECT i, LEFT(SHA2(i, 256), 20) FROM shop.n WHERE i < 1000;
UPDATE functional SET a = REVERSE(a) WHERE id%3 = 0;
