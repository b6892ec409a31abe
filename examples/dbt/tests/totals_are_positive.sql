select city, total from {{ ref("city_totals") }} where total < 0
