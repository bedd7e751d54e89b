-- The bucket of a length of {seconds}: domain/histogram.py has the same. Shorter than 0.1 ms counts as that; NULL stays NULL.
case when {seconds} is not null then round(ln(greatest({seconds}, 0.0001)) / ln(1.2::float8))::smallint end
